export { nearest } from '../core';
export {
  ATTENTION_KERNELS,
  type AttentionKernel,
  kernelNamed,
  kernelOf,
  kindOfKernel,
} from './attention-kernels';
export { type Call, checkArguments } from './call-arguments';
export {
  anyText,
  anything,
  atLeast0,
  callback,
  count,
  either,
  fields,
  fieldsOf,
  finite,
  flag,
  fraction,
  index,
  instance,
  iterable,
  LONGEST_PATH,
  listOf,
  type OptionKind,
  type OptionKinds,
  oneOf,
  orNull,
  pairFrom,
  refuseNull,
  requireArity,
  requireKind,
  requireOptions,
  tensor,
  text,
  wholeFrom,
} from './call-options';
export { issuesMessage, parsedBy, requirePlain, toIssues, valueAt } from './config-issue';
export { configWarnings, type SettingWarning, settingWarnings } from './config-warnings';
export {
  consecutivePlacement,
  copiesPerRank,
  type ExpertPlacement,
  type LayerPlacement,
  placementIssue,
} from './expert-placement';
export { EMBEDDINGS, hasRouter, isLanguageModel, isVideoModel, kindOf, readHub } from './families/families';
export {
  type AttentionKind,
  type BuiltInModel,
  type DitConfig,
  ditSchema,
  type GptConfig,
  gptSchema,
  type LlamaConfig,
  llamaFfn,
  llamaSchema,
  MOST_EXPERTS,
  MOST_LAYERS,
  type MoeConfig,
  moeSchema,
  size,
  type T5Config,
  t5Schema,
} from './families/kinds';
export { isSurplus, isTransposed, namesInFile, publishedModel, publishedName } from './families/published';
export {
  errorsOf,
  FRAGMENTS,
  type Fragment,
  type FragmentStatus,
  fragmentKeys,
  fragmentText,
  lettersOf,
  type Trial,
} from './fragments';
export { functionsMissing, pythonRefused } from './functions-missing';
export { wordsOfIssues } from './issue-words';
export { type LocatedText, locatedText, requireShort } from './located-text';
export { modelConflicts } from './model-conflicts';
export { type ReadModelFiles, readModelFiles } from './model-files';
export {
  CATALOGUE,
  isBuilt,
  knownModel,
  MODEL_NAMES,
  type ModelName,
  modelNamed,
  PLANNED_NAMES,
  PUBLISHED_NAMES,
  type PublishedName,
  plannedNamed,
} from './model-names';
export { configNamed, PRESETS, presetNamed, readNamed } from './named-config';
export { NAMED_MODELS, PUBLISHED_TRAINING } from './named-models';
export { camelCase, requireKnownOptions, spelled } from './option-names';
export { fromOtherName } from './other-names';
export {
  anyValue,
  atLeast0Schema,
  countSchema,
  flagSchema,
  functionSchema,
  limitAbove,
  ofKind,
  parseOptions,
  pathSchema,
  positiveSchema,
  type ShapeOf,
  wholeSchema,
} from './parse-options';
export { placeText } from './place-text';
export { isPretrained, type PretrainedInput } from './pretrained';
export { isPythonFile, isPythonModel } from './python-model';
export {
  type RouterOptions,
  type Routers,
  routerOf,
  sequenceConflict,
  stageConflict,
} from './router-options';
export { withSettings } from './set-settings';
export type { ConfigIssue, Original } from './setting';
export {
  configSchema,
  FORMS,
  keysOf,
  type PlannedPath,
  SETTING_ROWS,
  type SettingPath,
  settingAt,
  WHOLE_SETTINGS,
} from './setting-table';
export type { CommHookConfig, CommHookInput, PowerSGDConfig, TopKConfig } from './settings/comm-hook';
export { type DataFormat, isNames, type NumberArray, type OwnData, ownData } from './settings/data';
export type { DpoConfig } from './settings/dpo';
export { isGathered } from './settings/gathering';
export { type LoraConfig, loraSchema } from './settings/lora';
export { type ActivationCheckpointingConfig, type OffloadConfig, RECOMPUTED } from './settings/memory';
export {
  isOwnModel,
  MODEL_PARTS,
  type ModelConfig,
  type ModelSetting,
  modelSchema,
  modelShape,
  positionsOf,
  publishedModelName,
  weightsOf,
} from './settings/model';
export { CP_KINDS, dataPlaceOf, dataRanksOf, shardRanksOf } from './settings/model-parallel';
export {
  ADAM_DEFAULTS,
  ADAMW_8BIT_DEFAULTS,
  ADAMW_DEFAULTS,
  LION_DEFAULTS,
  MIN_8BIT_SIZE,
  NORMALIZING_OPTIMIZERS,
  type OptimizerConfig,
  optimizerFields,
  SGD_DEFAULTS,
} from './settings/optimizer';
export { PARALLEL, type ParallelConfig, type WrapConfig } from './settings/parallel';
export {
  microbatchesOf,
  PIPELINE,
  PIPELINE_SCHEDULES,
  type PipelineScheduleName,
  SPLITS,
  virtualStagesOf,
} from './settings/pipeline';
export {
  DEFAULT_GRAD_SCALER,
  FLOAT_WORDS,
  type FloatDType,
  type GradScalerConfig,
  gradScalerOf,
  MIXED_PRECISION,
  type MixedPrecisionConfig,
  mixedPrecisionSchema,
  type PrecisionSettings,
  precisionConflict,
  reduceDtypeOf,
  SHORT_FLOATS,
  usesFloat16,
} from './settings/precision';
export { decayStepsOf, ENDING, SCHEDULE_DEFAULTS, type ScheduleConfig } from './settings/schedule';
export { coderPatch, encoderShape, type MovingShapesConfig } from './settings/videos';
export { STACKS, type Stack } from './stacks';
export {
  isSharded,
  type ModelState,
  STRATEGIES,
  STRATEGY_NAMES,
  STRATEGY_WORDS,
  type StrategyName,
  type StrategyProperties,
  strategyNamed,
  strategySchema,
  strategyWith,
} from './strategies';
export { strictNames } from './strict-names';
export {
  checkConfig,
  checkTrainConfig,
  isChanged,
  knownKeys,
  parseSettings,
  parseTrainConfig,
  type TrainConfig,
  type TrainConfigInput,
  usualConfig,
} from './train-config';
