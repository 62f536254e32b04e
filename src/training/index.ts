export { folderToRead, recoverFolder } from './checkpoint/format/checkpoint-folder';
export { STATE_FILE } from './checkpoint/format/checkpoint-mark';
export { type Json, NOTHING_WRITTEN, stateOf } from './checkpoint/format/checkpoint-state';
export { requireSavePlace, writeAll } from './checkpoint/format/file-system';
export { refuseOtherFormats } from './checkpoint/format/not-safetensors';
export { isRunning, processMark } from './checkpoint/format/process-mark';
export { type Catalog, openCatalog, type StoredArray } from './checkpoint/load/catalog';
export { type LoadedCheckpoint, loadCheckpoint } from './checkpoint/load/load-checkpoint';
export { StateDicts } from './checkpoint/load/state-dicts';
export { StretchReader } from './checkpoint/load/stretch-reader';
export { peftTarget } from './checkpoint/pretrained/adapters';
export {
  atTimes,
  firstStateOf,
  type RankProgress,
  TELL_MS,
  withReports,
} from './checkpoint/pretrained/first-state';
export { writeInitialValues, writePublishedValues } from './checkpoint/pretrained/initial-values';
export { openFirstState } from './checkpoint/pretrained/open-pretrained';
export { copyTokenizer, TOKENIZER_FILES, writePretrained } from './checkpoint/pretrained/write-pretrained';
export { type PlacedState, type Redistributed, redistribute } from './checkpoint/reshard/redistribute';
export { Checkpointer, type CheckpointSave } from './checkpoint/save/checkpointer';
export type { StateDictType } from './checkpoint/save/save-layout';
export { parameterOfGradient, SAVE_OPTIONS, type SaveOptions } from './checkpoint/save/save-plan';
export { agree, exchange, type RankFailure } from './checkpoint/state/agreement';
export { wholeShapeOf } from './checkpoint/state/parts';
export { gradientStates, type StepCounts, stepCountsOf } from './checkpoint/state/training-state';
export type {
  AnswerLabels,
  BatchColumn,
  BatchesOf,
  BatchSource,
  EpochBatches,
  RowBatch,
  TokenBatch,
  ValidationBatches,
} from './data/batch';
export { createBatches, createOwnBatches } from './data/batches';
export type { LatentBatch } from './data/latents';
export { openData } from './data/open-data';
export { codecOf, dataToPrepare, filesOfData } from './data/prepare/config-data';
export { prepareData } from './data/prepare/prepare-data';
export { promptCodecOf } from './data/prepare/prompt-codec';
export type { TextCodec } from './data/prepare/tokenizer';
export type { DataToPrepare, PreparedData } from './data/prepared';
export { inputParts, type VideoSettings, velocityPart, videosOf } from './data/video-batches';
export type { EvaluationResult, Metrics } from './evaluation';
export { type ProfileOptions, profileSteps, type TimedStep, timeSteps } from './kernel-profile';
export type { MemoryCheckpoints } from './memory-checkpoints';
export { type FileBatch, fileBatch, type OwnParts } from './own-task';
export { limitsOf, type Sampling } from './sampling';
export type { RankRows, StepResult } from './step-result';
export type { Rewards } from './task';
export type {
  Attribute,
  TracedCall,
  TracedModule,
  TracedNode,
  TracedNumber,
  TracedOperation,
  TracedProgram,
  TracedTensor,
  TracedValue,
} from './tracing/program';
export {
  type StoredBatches,
  type StoredTrace,
  storeTokens,
  traceAndStore,
  type WantedBatches,
} from './tracing/write-trace';
export { createTrainer, type Trainer } from './trainer';
export type { TrainerOptions } from './trainer-options';
export { type DataMark, dataMark, type TrainerState } from './trainer-state';
export type { Captions, SampledVideos, VideoSampling } from './video-sampling';
