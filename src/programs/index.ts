export { ACCELERATE_FSDP } from './accelerate/accelerate-fsdp';
export { readArguments } from './arguments';
export { MOST_RANKS_HERE } from './assemble';
export { type BundleOptions, planBundle, writeBundle } from './bundle/bundle';
export type { ExportedSetting, ExportReport } from './bundle/report';
export { accelerateFiles, isByDeepSpeed } from './export/accelerate-files';
export { deepSpeedConfig } from './export/deepspeed-config';
export {
  environmentFile,
  mainLines,
  restarts,
  shellFile,
  startComment,
  torchrunOptions,
} from './export/launch-files';
export { launchOf } from './export/launch-lines';
export { MODEL_FOLDER, modelNotes, modelSource } from './export/model-folder';
export { exportedToPeft } from './export/peft-targets';
export { as1F1B, TRAINER_EXCEPTIONS } from './export/program-exceptions';
export { lines, numberText, pythonValue } from './export/python';
export {
  inexpressible,
  OWN_BATCHES,
  onlyAllShards,
  onlyDivisorsOfHeads,
  onlyMeshes,
  onlyOptimizers,
  onlyRecompute,
  onlySchedules,
  reducedIn,
  similar,
} from './export/rules';
export { ofPrecision, onlyStage3 } from './export/script-exceptions';
export {
  type BundleFacts,
  type BundleFile,
  type Exceptions,
  exportedOf,
  type Treatment,
  worldOf,
} from './export/target';
export { startByAccelerate, startByHand, TORCH, TRAINER_NOTES } from './export/targets';
export { torchScript } from './export/train-script';
export { MEGATRON } from './megatron/megatron';
export { trainerCall } from './python/trainer-calls';
export { type Foreign, foreignOf, type ReadOptions, readAll, readConfig } from './read';
export { linesText, readingText, wrapped } from './reading-text';
export { hasMark } from './registry/marks';
export { isForPreferences, refusedPreferences, refusedScript } from './registry/preferences';
export {
  dialects,
  fileForms,
  pythonCalls,
  registerPrograms,
  rowOf,
  targetNames,
  targets,
} from './registry/registry';
export {
  allNone,
  both,
  COMPILED,
  decides,
  type Exported,
  exported,
  ifOn,
  isNothing,
  type KeyInput,
  type KeyRow,
  type KeyTable,
  none,
  onlyRead,
  place,
  planSwitch,
  refused,
  section,
  setting,
  settingBoth,
  settingKeys,
  type Translation,
  writtenKeys,
  wrongValue,
} from './rows/key-row';
export { type Dialect, type LocatedKey, placesOf } from './rows/meant';
export {
  ATTENTION,
  attentionSwitch,
  FIRST_ADAPTERS,
  modelMeaning,
  SEQUENCE,
  writtenSequence,
} from './rows/models';
export type { Effect, Reading, ReadLine } from './rows/reading';
export {
  clip,
  float,
  isPlaceholder,
  number,
  numberOf,
  whole,
  wholeFromZero,
  wholeOf,
  word,
  wordOf,
  yes,
  yesOf,
} from './rows/values';
export { beginsWith } from './shell/program';
export { whereOf } from './together';
export { toyConfig } from './toy';
export { SWIFT } from './trainers/swift';
export {
  DATA,
  fileKey,
  ofFile,
  TRAINER_DEFAULTS,
  TRAINING_ARGUMENTS,
  TRANSFORMERS,
} from './trainers/transformers';
