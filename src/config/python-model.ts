import { resolve } from 'node:path';

/** Whether a setting `model` is a class of Python. */
export function isPythonModel(value: unknown): value is { readonly python: unknown } {
  if (typeof value !== 'object' || value === null || !('python' in value)) return false;
  return !('kind' in value) || value.kind === 'python';
}

/** Returns the path of a file of Python; a name without '.py' is that of an installed package. */
export function pythonPath(python: unknown): unknown {
  return isPythonFile(python) ? resolve(python) : python;
}

/** Whether a model's `python` names a file. */
export function isPythonFile(python: unknown): python is string {
  return typeof python === 'string' && python.endsWith('.py');
}
