export { readArguments } from './arguments';
export { MOST_RANKS_HERE } from './assemble';
export {
  type BundleFileFacts,
  type BundleFileName,
  type BundleOptions,
  OWN_BUNDLES,
  planBundle,
  writeBundle,
} from './bundle/bundle';
export type { ExportedSetting, ExportReport } from './bundle/report';
export type { OwnBundleModel, PythonCode } from './export/target';
export { type Foreign, foreignOf, type ReadOptions, readAll, readConfig } from './read';
export { linesText, readingText, wrapped } from './reading-text';
export { handOvers } from './registry/hand-over';
export { dialects, fileForms, pythonCalls, rowOf, targets } from './registry/registry';
export { isNothing } from './rows/key-row';
export { type LocatedKey, placesOf } from './rows/meant';
export type { Effect, Reading, ReadLine } from './rows/reading';
export { isPlaceholder, numberOf, wholeOf, word, yesOf } from './rows/values';
export { whereOf } from './together';
export { toyConfig } from './toy';
export { SWIFT_COMMANDS } from './trainers/swift-rlhf';
