/** Packages that cells import by another's name: with none of their own installed, this package supplies them. */
const STAND_INS: Readonly<Record<string, string>> = {
  tslab: 'shardlab/tslab',
  '@tensorflow/tfjs': 'shardlab/tf',
};

/** The name by which this installation has a package that cells import; undefined where it has none. */
export function ownName(specifier: string): string | undefined {
  return /^shardlab(\/|$)/.test(specifier) ? specifier : STAND_INS[specifier];
}
