export { type Accuracy, accuracyOf, type MeasuredRun } from './accuracy';
export { ADVICE_GRID, type AdviceFinding, type AdviceGrid, type AdviceName, testAdvice } from './advice';
export {
  layoutAnswer,
  type PlanAnswer,
  type PlanFailure,
  planAnswer,
  readingAnswer,
} from './answer';
export type { ConfigReading } from './assumed';
export { ofAnyLine, withoutNotes } from './batch-line';
export { CALIBRATION } from './calibration';
export { configOfLayout } from './config-of-layout';
export { collectiveSeconds, groupPlaceOf } from './cost/collective';
export {
  type Cost,
  costOf,
  type Planned,
  type RunLength,
  tokensPerStep,
  usdPerMillionTokens,
} from './cost-of';
export { type BytesBeside, besidePrediction } from './dry-run/beside-prediction';
export { configAt, countedPlan } from './dry-run/counted-plan';
export { DRY_RUN_OPTIONS, type DryRunOptions, dryRun } from './dry-run/dry-run';
export { DryRun } from './dry-run/dry-run-result';
export { forecastRun, type RunForecast } from './dry-run/forecast';
export { overheadOfCalls, predictHere } from './dry-run/here-costs';
export { type HereMeasurements, measuredKernels } from './dry-run/here-measurements';
export type { MetaOwn } from './dry-run/rank-run';
export type { Traced } from './dry-run/traced';
export { type TracedWork, tracedWork } from './dry-run/traced-model';
export { type WireBeside, wireBeside } from './dry-run/wire-beside';
export {
  type Change,
  changesOfOne,
  explained,
  fittingLines,
  iterationWords,
  nearestFitting,
} from './explain';
export { familyOf, type Loss } from './families';
export { type FittedHardware, fitHardware, parseMeasured } from './fit-hardware';
export { GENERATIONS } from './generations';
export { GPUS, type GpuName, hardwareOf } from './hardware';
export { type HardwareCalibration, parseCalibration } from './hardware-calibration';
export { hubModelAt } from './hub-files';
export { type KnobValues, type Turn, turnsOf } from './knobs';
export { KNOWN_GPUS, KNOWN_MODELS, type KnownGpu } from './known';
export { type AnyLayout, COUNTED, isPredicted, type Layout } from './layout';
export type { Held } from './layout-of-config';
export type {
  PublishedName,
  ReproducedRow,
  TableSource,
} from './measured/published-tables';
export * as published from './measured/published-tables';
export { reservableBytes } from './memory/allocator';
export { type InferenceMemory, type InferenceRequest, inferenceMemory } from './memory/inference';
export { predictMemory, predictStages } from './memory/predict-memory';
export { optimizerBytesOf } from './memory/state-bytes';
export { modelFlops } from './model-flops';
export { shapeOf } from './model-shape';
export { isHubConfig, modelOf, ownModelRefused, shapeOfHub } from './models';
export { hardwareAt, type Place, parsePlace, placeSchema } from './place';
export {
  calibratedPlace,
  changedInput,
  degreesOf,
  inputAt,
  isPlannedOnly,
  layoutOf,
  PLAN_OPTIONS,
  type PlanInput,
  type PlanOptions,
  planInputNamed,
  plannedInput,
  requireReadable,
} from './plan-input';
export { type PlannedConfig, type PlanObject, withSequences } from './planned-model';
export { predict } from './predict';
export {
  type ComputeCause,
  type Estimate,
  type MemoryPrediction,
  type Prediction,
  peakInBytes,
} from './prediction';
export { type OwnPrices, PRICES, type PriceTable, priceTable } from './prices';
export {
  type PlannedInput,
  type PlanPlace,
  partsOf,
  plannedSettings,
  type Surroundings,
} from './read-settings';
export { type Recommendation, recommend } from './recommend';
export { type RecommendInput, type RecommendRequest, recommendRequest } from './recommend-request';
export { scalingEfficiency } from './scaling-efficiency';
export { besideFp8 } from './stack-rules';
