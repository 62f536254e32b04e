export { type Accuracy, accuracyOf, type MeasuredRun } from './accuracy';
export { ADVICE_GRID, type AdviceFinding, type AdviceGrid, type AdviceName, testAdvice } from './advice';
export type { ConfigReading } from './assumed';
export { isBatchLine, ofBatchLine, withoutNotes } from './batch-line';
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
export { COUNTED, configAt, countedPlan } from './dry-run/counted-plan';
export { DRY_RUN_OPTIONS, type DryRunOptions, dryRun } from './dry-run/dry-run';
export { DryRun } from './dry-run/dry-run-result';
export { forecastRun, type RunForecast } from './dry-run/forecast';
export { overheadOfCalls, predictHere } from './dry-run/here-costs';
export { type HereMeasurements, measuredKernels } from './dry-run/here-measurements';
export type { MetaOwn } from './dry-run/rank-run';
export { type WireBeside, wireBeside } from './dry-run/wire-beside';
export { explained, fittingLines, iterationWords } from './explain';
export { familyOf, type Loss } from './families';
export { type FittedHardware, fitHardware, parseMeasured } from './fit-hardware';
export { GENERATIONS } from './generations';
export { GPUS, type GpuName, hardwareOf } from './hardware';
export { type HardwareCalibration, parseCalibration } from './hardware-calibration';
export { type KnobValues, type Turn, turnsOf } from './knobs';
export { KNOWN_GPUS, KNOWN_MODELS, type KnownGpu } from './known';
export { type AnyLayout, isPredicted, type Layout } from './layout';
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
export { hubModelAt, modelOf, ownModelRefused } from './models';
export { hardwareAt, type Place, parsePlace, placeSchema } from './place';
export {
  calibratedPlace,
  changedInput,
  degreesOf,
  inputAt,
  layoutOf,
  PLAN_OPTIONS,
  type PlanInput,
  type PlannedInput,
  type PlanOptions,
  type PlanPlace,
  partsOf,
  planInputNamed,
  plannedInput,
  requireReadable,
} from './plan-input';
export { type PlannedConfig, type PlanObject, plannedModel, withSequences } from './planned-model';
export { predict } from './predict';
export {
  type ComputeCause,
  type Estimate,
  type MemoryPrediction,
  type Prediction,
  peakInBytes,
} from './prediction';
export { type OwnPrices, PRICES, type PriceTable, priceTable } from './prices';
export { type Recommendation, recommend } from './recommend';
export { type RecommendInput, type RecommendRequest, recommendRequest } from './recommend-request';
export { scalingEfficiency } from './scaling-efficiency';
export { besideFp8 } from './stack-rules';
