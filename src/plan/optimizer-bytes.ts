import type { OptimizerConfig } from '../config/settings/optimizer';
import type { Bytes } from '../core/units';
import { MIN_8BIT_SIZE } from '../optim/adamw-8bit';

/** Two float32 moments. */
export const ADAM_BYTES = 8;
const MOMENTUM_BYTES = 4;
/** Two codes of one byte an element, and two float32 scales a block. */
const CODE_BYTES = 2;
const SCALE_BYTES = 8;

/** What an optimizer keeps of a state buffer, by its elements: a parameter that every rank holds whole, or a flat shard. */
export function optimizerBytesOf(
  optimizer: Pick<OptimizerConfig, 'kind' | 'momentum' | 'blockSize'>,
): (elements: number) => Bytes {
  switch (optimizer.kind) {
    case 'adamW':
      return (elements) => ADAM_BYTES * elements;
    case 'adamW8bit':
      return (elements) =>
        elements < MIN_8BIT_SIZE
          ? ADAM_BYTES * elements
          : CODE_BYTES * elements + SCALE_BYTES * Math.ceil(elements / optimizer.blockSize);
    case 'sgd':
      return (elements) => (optimizer.momentum > 0 ? MOMENTUM_BYTES * elements : 0);
    default:
      return optimizer.kind satisfies never;
  }
}
