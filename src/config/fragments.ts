import written from './fragments.json';

/** Whether what a document writes is here. */
export type FragmentStatus = 'here' | 'error' | 'not here yet' | 'never existed' | 'no effect';

/** A name or piece of code of a document. */
export interface Fragment {
  readonly name: string;
  /** Which document writes it. */
  readonly document: string;
  readonly asWritten: string;
  /** What the original makes of it; tried on torch 2.13. */
  readonly inTheOriginal: string;
  /** What it is called here, or what is said about it. */
  readonly here: string;
  readonly status: FragmentStatus;
  /**
   * Code for a rank, given `model` (a GPT), its `shape`, an `optimizer` and a `folder`: what one writes here, or what the error
   * answers to; where it begins with npx, a line for the shell.
   */
  readonly example?: string;
}

/**
 * Every name and piece of code in the documents, in their order. A test runs the examples and compares what is said with what
 * happens.
 */
export const FRAGMENTS = written as readonly Fragment[]; // a test checks every status
