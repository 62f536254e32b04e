import type { Notebook } from './executed';
import { figuresOf } from './sentences';

/** A sentence in a notebook's prose, and what the outputs must show for it. */
export interface Fact {
  readonly notebook: string;
  /** As it is written in the prose. */
  readonly sentence: string;
  holds(outputs: readonly string[], notebook: Notebook): boolean;
}

/** Returns the figure whose title matches. */
export const titled = (notebook: Notebook, pattern: RegExp) =>
  figuresOf(notebook).find(({ title }) => pattern.test(title));
/** Whether the subtitle of a figure matches. */
export const answers = (notebook: Notebook, pattern: RegExp): boolean =>
  figuresOf(notebook).some(({ subtitle }) => pattern.test(subtitle));
/** Whether an output matches. */
export const shows = (outputs: readonly string[], pattern: RegExp): boolean =>
  outputs.some((text) => pattern.test(text));
