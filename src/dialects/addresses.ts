import { exported, type KeyRow } from './key-row';
import { isPlaceholder, wholeOf } from './values';

/** Returns the row of a host's address. Nothing looks it up; a placeholder gets a warning. */
export function addressKey(says: string): KeyRow {
  return {
    ...exported(says),
    mean: ({ value, line }) =>
      isPlaceholder(value)
        ? {
            effect: 'warning',
            why: `placeholder address, line ${line}: write the address of machine 0 in place of ${String(value)}; nothing looks it up`,
          }
        : { effect: 'exported', why: says },
  };
}

/** Returns the row of a port. */
export function portKey(says: string): KeyRow {
  return {
    ...exported(says),
    mean: ({ value }) => {
      if (value !== null) wholeOf(value, 0);
      return { effect: 'exported', why: says };
    },
  };
}
