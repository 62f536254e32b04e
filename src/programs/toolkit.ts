// What a program outside of this flat is made of: rows of keys, kinds of values, and the files of exports.
export { ACCELERATE_FSDP } from './accelerate/accelerate-fsdp';
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
  builtInShape,
  type Exceptions,
  exportedOf,
  type Treatment,
  worldOf,
} from './export/target';
export { startByAccelerate, startByHand, TORCH, TRAINER_NOTES, withVideos } from './export/targets';
export { MEGATRON } from './megatron/megatron';
export { trainerCall } from './python/trainer-calls';
export { hasMark } from './registry/marks';
export { isForPreferences, refusedPreferences, refusedScript } from './registry/preferences';
export { registerPrograms } from './registry/registry';
export {
  allNone,
  both,
  COMPILED,
  decides,
  type Exported,
  exported,
  ifOn,
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
export type { Dialect } from './rows/meant';
export {
  ATTENTION,
  attentionSwitch,
  FIRST_ADAPTERS,
  modelMeaning,
  SEQUENCE,
  writtenSequence,
} from './rows/models';
export { clip, float, number, whole, wholeFromZero, wordOf, yes } from './rows/values';
export { beginsWith } from './shell/program';
export { preferenceKeys } from './trainers/swift-rlhf';
export {
  DATA,
  fileKey,
  ofFile,
  TRAINER_DEFAULTS,
  TRAINING_ARGUMENTS,
  TRANSFORMERS,
} from './trainers/transformers';
