import { inspect } from 'node:util';

interface TensorLike {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly isDisposed: boolean;
  toString(): string;
}

/** A tensor's type, shape and values; undefined for a value that is not a tensor. */
export function tensorText(value: unknown): string | undefined {
  if (!isTensor(value)) return undefined;
  const head = `${value.dtype}[${value.shape.join(', ')}]`;
  if (value.isDisposed) return `${head} (disposed)`;
  return `${head}\n${value.toString().replace(/^Tensor\n/, '')}`;
}

/**
 * Makes `console.log` and other inspections show tensors of this class in this form, also within arrays and objects.
 */
export function showTensorValues(tensorClass: unknown): void {
  if (typeof tensorClass !== 'function') return;
  Object.defineProperty(tensorClass.prototype, inspect.custom, {
    configurable: true,
    value(this: unknown): string {
      return tensorText(this) ?? 'Tensor';
    },
  });
}

function isTensor(value: unknown): value is TensorLike {
  return (
    typeof value === 'object' &&
    value !== null &&
    'dataId' in value &&
    'dtype' in value &&
    'isDisposed' in value &&
    'shape' in value &&
    Array.isArray(value.shape)
  );
}
