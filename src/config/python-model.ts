/** Whether a setting `model` is a class of Python. */
export function isPythonModel(value: unknown): value is { readonly python: unknown } {
  if (typeof value !== 'object' || value === null || !('python' in value)) return false;
  return !('kind' in value) || value.kind === 'python';
}

/** Whether a model's `python` names a file. */
export function isPythonFile(python: unknown): python is string {
  return typeof python === 'string' && python.endsWith('.py');
}
