/** Packages that this package replaces if the user has not installed them, by the name in the cell's import. */
const STAND_INS: Readonly<Record<string, string>> = {
  tslab: 'shardlab/tslab',
  '@tensorflow/tfjs': 'shardlab/tf',
};

/** The name by which this installation has a package that cells import; undefined if it has none. */
export function ownName(specifier: string): string | undefined {
  return /^shardlab(\/|$)/.test(specifier) ? specifier : STAND_INS[specifier];
}
