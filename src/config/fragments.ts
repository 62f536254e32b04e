import written from './fragments.json';

/** Whether shardlab has what a document writes. */
export type FragmentStatus = 'here' | 'error' | 'not here yet' | 'never existed' | 'no effect';

/** A name or piece of code of a document. */
export interface Fragment {
  readonly name: string;
  /** Which document writes it. */
  readonly document: string;
  readonly asWritten: string;
  /** What it does in the original library; tried on torch 2.13. */
  readonly inTheOriginal: string;
  /** Its name here, or what a message here says about it. */
  readonly here: string;
  readonly status: FragmentStatus;
  /**
   * Code for a rank that has `model` (a GPT), its `shape`, an `optimizer` and a `folder`: what to write here, or the code that
   * gets the error. An example that begins with npx is a shell command.
   */
  readonly example?: string;
}

/**
 * Every name and piece of code in the documents, in their order. A test runs the examples and checks that these texts are
 * true.
 */
export const FRAGMENTS = written as readonly Fragment[]; // a test checks every status
