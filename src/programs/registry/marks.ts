import type { Dialect } from '../rows/meant';

/** Whether a script's arguments have a name that only one program has: one of the `marks`, which the program's table has too. */
export function hasMark(names: readonly string[], { keys }: Dialect, ...marks: readonly string[]): boolean {
  return marks.some((mark) => names.includes(mark) && Object.hasOwn(keys, mark));
}
