import type { OwnData } from '../../../config';
import { ConfigError } from '../../../core';

/**
 * Returns how many of `count` rows, tokens or examples are for validation; 0 if `data.validation` is not a share. Throws: CONFIG
 * for a share that is less than one of them, because nothing would be evaluated.
 */
export function validationCount(
  { validation }: Pick<OwnData, 'validation'>,
  count: number,
  unit: string,
): number {
  if (typeof validation !== 'number') return 0;
  const part = Math.floor(count * validation);
  if (part > 0) return part;
  throw new ConfigError(
    `data.validation: a share of ${validation} of ${count} ${unit} is less than one of them; give a larger share, files for validation, or null`,
  );
}
