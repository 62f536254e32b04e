import written from './fragments.json';

/** Whether shardlab has the name or the code that a document writes. */
export type FragmentStatus = 'here' | 'error' | 'not here yet' | 'never existed' | 'no effect';

/** Code that was run on its original library, and the outcome. A test runs it again (`test/data/fragment_outcomes.py`). */
export interface Trial {
  /** The library with its version, as 'torch 2.13.0'. */
  readonly by: string;
  /** Code in Python, with a small model on the CPU. */
  readonly code: string;
  /** The number of processes on which the code ran. Default: one. */
  readonly ranks?: number;
  /** The outcome: 'runs', the value of the last expression, or the error with the first line of its message. */
  readonly outcome: string;
}

/** A name or a piece of code that a document writes. */
export interface Fragment {
  readonly name: string;
  /** The document that writes the name or the code. */
  readonly document: string;
  readonly asWritten: string;
  /** What the name or the code does in the original library. */
  readonly inTheOriginal: string;
  /** Trials of the document's code on the original libraries; empty if the original library is no package of Python. */
  readonly tried: readonly Trial[];
  /** The fragment's name here, or what a message here says about the fragment. */
  readonly here: string;
  readonly status: FragmentStatus;
  /**
   * Code for a rank that has `model` (a GPT), its `shape`, an `optimizer` and a `folder`. If `status` is 'error', the code is
   * refused here; otherwise, it is the code to write here. An example that begins with npx is a shell command.
   */
  readonly example?: string;
}

/**
 * Every name and piece of code in the documents, in their order. A test runs the examples and checks that these texts are
 * true.
 */
export const FRAGMENTS = written as readonly Fragment[]; // a test checks every status

/** Returns the kinds of errors that an outcome names. */
export function errorsOf({ outcome }: Trial): readonly string[] {
  return [...outcome.matchAll(/(?:^|: )(\w+Error): /g)].map(([, error = '']) => error);
}

/** Returns a fragment as lines of text. */
export function fragmentText(fragment: Fragment): string {
  const { name, document, asWritten, inTheOriginal, tried, here, status, example } = fragment;
  const lines = [
    `${name} (${document}): ${status}`,
    `  as written       ${asWritten}`,
    `  in the original  ${inTheOriginal === '' ? 'as written' : inTheOriginal}`,
    ...tried.map(({ by, outcome }) => `  tried            ${by}: ${outcome}`),
    `  here             ${here}`,
  ];
  return [...lines, ...exampleLines(status, example)].join('\n');
}

function exampleLines(status: Fragment['status'], example: string | undefined): string[] {
  if (example === undefined) return [];
  const head = status === 'error' ? '  refused          ' : '  write            ';
  return [head + example.replaceAll('\n', `\n${' '.repeat(head.length)}`)];
}

/** Returns the words under which a fragment is found, as `lettersOf` writes them: the parts of its name, and its flags. */
export function fragmentKeys({ name, asWritten }: Fragment): string[] {
  const parts = name.split(/[\s.,=()…]+/).filter((part) => part.length > 2);
  return [...parts, ...(asWritten.match(/--\w+/g) ?? [])].map(lettersOf);
}

/** Returns a word's letters and digits in lower case, in which all spellings of a name are equal. */
export function lettersOf(word: string): string {
  return word.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}
