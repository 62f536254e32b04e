import type { TrainConfig } from '../../../src/config/train-config';
import { itemBytes } from '../../../src/core/dtypes';
import { buildModel, chooseTrained } from '../../../src/nn/models/build-model';
import type { Module } from '../../../src/nn/module';
import type { Parameter } from '../../../src/nn/parameter';
import { optimizerBytesOf } from '../../../src/planner/memory/state-bytes';
import { assignBuckets, DEFAULT_BUCKET_SIZES } from '../../../src/sharding/ddp/reducer';
import { policyOf } from '../../../src/sharding/precision/mixed-precision';
import { isInUnits, type PlannedUnit, planUnits } from '../../../src/sharding/unit-plan';
import { type RuleSettings, ruleOf } from './unit-rules';
import { predictStates, type ZeroPrediction, type ZeroQuestion } from './zero-formulas';
import { type PeakPrediction, type PeakUnit, predictPeaks } from './zero-peaks';

/** The formulas' values for a config's run: states, communication, and the peaks of parameters and gradients. */
export interface RunPrediction extends ZeroPrediction {
  readonly units: readonly PeakUnit[];
  readonly peaks: readonly PeakPrediction[];
}

/** Model states and communication of a config's model by ZeRO's formulas; padding as FSDP's chunks of dim 0 need it. */
export function predictRun(config: TrainConfig, world: number): RunPrediction {
  const model = buildModel(config);
  chooseTrained(model, config);
  const { parallel } = config;
  const inUnits = isInUnits(parallel);
  const settings = settingsOf(config, world, inUnits);
  const units = unitsOf(model, config, settings);
  const question: ZeroQuestion & { readonly units: readonly PeakUnit[] } = {
    ...settings,
    units,
    strategy: parallel.strategy,
    optimizerBytes: optimizerBytesOf(config.optimizer),
  };
  // Without units, microbatches add up in place, reduced each or once.
  const peaks = predictPeaks(inUnits ? question : { ...question, noSync: true });
  const prediction = { ...predictStates(question), units, peaks };
  if (inUnits) return prediction;
  const allReduce = numBuckets(model, config) * ruleOf(parallel.strategy, true, settings).reductions;
  return { ...prediction, collectives: { ...prediction.collectives, allReduce } };
}

/** All-reduces of whole gradients: one per bucket. */
function numBuckets(model: Module, { parallel: { bucketBytes } }: TrainConfig): number {
  const trained = model.parameters().filter(({ requiresGrad }) => requiresGrad);
  return assignBuckets(trained, { ...DEFAULT_BUCKET_SIZES, bucketBytes }).length;
}

function settingsOf(config: TrainConfig, world: number, inUnits: boolean) {
  const { mesh, reshardAfterForward, forwardPrefetch, backwardPrefetch, noSync } = config.parallel;
  const { paramDtype, reduceDtype } = policyOf(config);
  return {
    mesh,
    reshardAfterForward,
    forwardPrefetch,
    backwardPrefetch,
    noSync,
    world,
    accumulation: config.accumulation,
    roundsParameters: inUnits && paramDtype !== 'float32',
    offloadsParameters: config.offload.parameters,
    offloadsOptimizer: config.offload.optimizer,
    wireItemBytes: { param: itemBytes(paramDtype), grad: itemBytes(reduceDtype) },
  };
}

/** In the order in which they are entered. */
function unitsOf(model: Module, config: TrainConfig, settings: RuleSettings): PeakUnit[] {
  const planned = planUnits(model, config.parallel).filter(({ parameters }) => parameters.length > 0);
  const order = model.modules();
  const place = ({ module }: PlannedUnit): number => order.indexOf(module);
  return planned
    .sort((a, b) => place(a) - place(b))
    .map(({ module, strategy, parameters }): PeakUnit => {
      const isRoot = module === model;
      const { numShards, postForward } = ruleOf(strategy, isRoot, settings);
      const parents = planned.filter(
        (other) => other.module !== module && other.module.modules().includes(module),
      );
      const parent = parents.reduce<PlannedUnit | null>(
        (inner, other) => (inner?.module.modules().includes(other.module) === false ? inner : other),
        null,
      );
      return {
        name: module.path,
        parent: parent?.module.path ?? null,
        strategy,
        staysWhole: isRoot,
        // Without units, every parameter is a buffer of its own.
        buffers: isInUnits(config.parallel) ? undefined : trainedSizes(parameters),
        ...sizes(parameters, numShards, postForward),
      };
    });
}

function sizes(parameters: readonly Parameter[], numShards: number, postForward: number | null) {
  const frozen = parameters.filter(({ requiresGrad }) => !requiresGrad);
  return {
    numParams: numel(parameters),
    padding: paddingOver(parameters, numShards),
    postForwardPadding: postForward === null ? 0 : paddingOver(parameters, postForward),
    frozen: { numParams: numel(frozen), padding: paddingOver(frozen, numShards) },
  };
}

function trainedSizes(parameters: readonly Parameter[]): number[] {
  return parameters.filter(({ requiresGrad }) => requiresGrad).map(({ size }) => size);
}

function numel(parameters: readonly Parameter[]): number {
  return parameters.reduce((sum, { size }) => sum + size, 0);
}

/** Additional elements for equal chunks of rows. */
function paddingOver(parameters: readonly Parameter[], numRanks: number): number {
  return parameters.reduce((sum, { shape: [rows = 1], size }) => {
    return sum + (Math.ceil(rows / numRanks) * numRanks - rows) * (size / rows);
  }, 0);
}
