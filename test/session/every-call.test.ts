import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { claims } from '../../src/claims/notebook/claims';
import { parseTrainConfig } from '../../src/config/train-config';
import { SILENT } from '../../src/core/events';
import type { Engine } from '../../src/engine/backend/engine';
import { plotNumbers } from '../../src/figures/plot-numbers';
import { createTable } from '../../src/figures/table';
import { planLaunch } from '../../src/launch/options';
import { rankFsdp } from '../../src/launch/rank/fsdp';
import { Linear } from '../../src/nn/linear';
import { gpt } from '../../src/nn/models/gpt';
import { dryRun } from '../../src/planner/dry-run/dry-run';
import { advice } from '../../src/session/notebook/advice';
import { plan } from '../../src/session/notebook/plan';
import { ownRuns } from '../../src/session/notebook/predictions';
import { readConfig } from '../../src/session/notebook/read-config';
import { recommend } from '../../src/session/notebook/recommend';
import { CountedRun } from '../../src/session/plans/count';
import { scaling } from '../../src/session/plans/scaling';
import { Callbacks } from '../../src/session/run/callbacks';
import { loadRun, saveRun } from '../../src/session/run/checkpoints';
import { exportRun } from '../../src/session/run/export';
import { evaluateRun, sampleRun } from '../../src/session/run/inference';
import { checkLoopOptions } from '../../src/session/run/loop-options';
import { compareTraining } from '../../src/session/run/parity';
import { savePretrained } from '../../src/session/run/pretrained';
import { planReshard } from '../../src/session/run/reshard';
import { Run } from '../../src/session/run/run';
import { sampleVideo } from '../../src/session/run/sample-video';
import { ContextParallel } from '../../src/sharding/context/context-parallel';
import { applyExpertParallel } from '../../src/sharding/experts/apply-expert-parallel';
import { CPUOffload, CPUOffloadPolicy, MixedPrecisionPolicy } from '../../src/sharding/fsdp1/arguments';
import { fromFairScale } from '../../src/sharding/fsdp1/fair-scale';
import { fsdpSettings, fullyShardOptions } from '../../src/sharding/fsdp1/fsdp-options';
import { fsdpModules } from '../../src/sharding/fsdp1/fully-sharded-data-parallel';
import { summonFullParams } from '../../src/sharding/fsdp1/summon-full-params';
import { PipelineSchedule } from '../../src/sharding/pipeline/pipeline-schedule';
import { pipelineStages } from '../../src/sharding/pipeline/pipeline-stages';
import { simulateReductionError } from '../../src/sharding/precision/reduction-error';
import { checkpointWrapper } from '../../src/sharding/recompute/checkpointed';
import { ColumnParallelLinear } from '../../src/sharding/tensor/column-parallel-linear';
import { parallelizeTensors } from '../../src/sharding/tensor/parallelize-tensors';
import { RowParallelLinear } from '../../src/sharding/tensor/row-parallel-linear';
import { ColwiseParallel, RowwiseParallel } from '../../src/sharding/tensor/styles';
import { VocabParallelEmbedding } from '../../src/sharding/tensor/vocab-parallel-embedding';
import { checkSaveOptions } from '../../src/training/checkpoint/save/save-plan';
import { initializeModelParallel } from '../../src/wire/dist/model-parallel';
import { testEngine } from '../support/wasm-test-engine';
import { standIn } from '../wire/dist/group-stand-in';

/** A kind of value that hardly any option takes. */
const WRONG = { date: new Date(0), nan: Number.NaN, negative: -1.5, null: null } as const;
type Kind = keyof typeof WRONG;

interface Call {
  /** Calls the function as JavaScript can, with any options. */
  readonly call: (options: never) => unknown;
  /** The options that every call needs. */
  readonly needs?: object;
  /** For each option, the kinds of `WRONG` that it takes, or that other code refuses in other words. */
  readonly options: Readonly<Record<string, readonly Kind[]>>;
}

/** Other code refuses values of other types; null is always refused by name. */
const ALL: readonly Kind[] = ['date', 'nan', 'negative'];
/** A run that is never used, because the options are refused first. */
const RUN = {} as never;
const GROUP = standIn([0], 0);
const SIZES = { layers: 1, dim: 4, heads: 1, vocab: 8, seq: 4 };
const warn = (): void => undefined;

let engine: Engine;
before(async () => {
  engine = await testEngine();
});

/** Returns options that refuse every kind of `WRONG`. */
function strict(...names: readonly string[]): Call['options'] {
  return Object.fromEntries(names.map((name) => [name, []]));
}

const DRY_RUN = {
  ...strict('ranks', 'rank', 'steps', 'memoryLimit', 'blas', 'curve', 'events', 'repeats', 'warn'),
  costs: ALL,
};

/** Functions of a notebook, and methods of jobs, runs and plans. */
const NOTEBOOK: Readonly<Record<string, Call>> = {
  launch: {
    call: (options) => planLaunch(options, 1e12),
    needs: { ranks: 1 },
    options: {
      ...strict('ranks', 'engine', 'python', 'blas', 'transport', 'memoryLimit', 'baseDir', 'startSeconds'),
      ...strict('launcher', 'hosts', 'partition', 'interface'),
      link: ALL,
    },
  },
  'run.step': {
    call: (options) => checkLoopOptions('run.step', options, 5, { lastStep: 0, data: undefined }),
    options: {
      ...strict('evalSteps', 'saveSteps', 'outputDir', 'saveTotalLimit', 'loadBestModelAtEnd'),
      ...strict('earlyStoppingPatience', 'earlyStoppingThreshold'),
    },
  },
  'run.sample': {
    call: (options) => sampleRun(RUN, 'a', options),
    options: { ...strict('tokens', 'temperature', 'seed'), topK: ['null'] },
  },
  'run.sampleVideo': {
    call: (options) => sampleVideo(RUN, 'a', options),
    options: strict('steps', 'shift', 'seed'),
  },
  'run.evaluate': { call: (options) => evaluateRun(RUN, options), options: strict('metrics') },
  'run.parity': {
    call: (options) => compareTraining([RUN, RUN], options),
    options: strict('steps', 'tolerance'),
  },
  'run.export': {
    call: (options) => exportRun(RUN, options),
    needs: { to: 'torchrun', out: 'folder' },
    options: strict('to', 'out', 'machines', 'gpusPerMachine', 'steps'),
  },
  'run.save': {
    call: (options) => saveRun(RUN, 'folder', options),
    options: strict('type', 'maxShardBytes', 'dtype', 'async'),
  },
  'run.load': { call: (options) => loadRun(RUN, 'folder', options), options: strict('parametersOnly') },
  'run.savePretrained': {
    call: (options) => savePretrained(RUN, 'folder', options),
    options: strict('maxShardBytes', 'dtype', 'adapter'),
  },
  'run.addCallback': {
    call: (options) => new Callbacks().add(options),
    options: strict('onStepEnd', 'onEvaluate', 'onSave'),
  },
  memory: {
    call: (options) => Run.prototype.memory.call(RUN, options),
    options: strict('over', 'space', 'rank', 'step'),
  },
  comm: {
    call: (options) => Run.prototype.comm.call(RUN, options),
    options: strict('as', 'step', 'ranksPerNode'),
  },
  timeline: { call: (options) => Run.prototype.timeline.call(RUN, options), options: strict('as', 'step') },
  experts: { call: (options) => Run.prototype.experts.call(RUN, options), options: strict('layer', 'by') },
  plan: {
    call: (options) => plan('tiny', { gpus: 1 }, options),
    options: { ...strict('count'), calibration: ALL },
  },
  'plan (counted)': {
    call: (options) => plan('tiny', { gpus: 1 }, options),
    needs: { count: true },
    options: DRY_RUN,
  },
  traffic: {
    call: (options) => CountedRun.prototype.traffic.call(RUN, options),
    options: strict('step', 'ranksPerNode'),
  },
  scaling: {
    call: (options) => scaling({}, options),
    needs: { counts: [8] },
    options: {
      ...strict('counts', 'countedIn', 'quantity', 'batch', 'measuredWhat'),
      documented: ALL,
      measured: ALL,
    },
  },
  dryRun: {
    call: (options) => dryRun('tiny', options),
    needs: { world: 1 },
    options: { ...DRY_RUN, ...strict('world'), hardware: ALL },
  },
  plot: {
    call: (options) => plotNumbers([1, 2], options),
    options: strict('kind', 'x', 'title', 'subtitle', 'xTitle', 'yTitle'),
  },
  createTable: { call: (options) => createTable([{ a: 1 }], options), options: {} },
  'plan (its place)': {
    call: (place) => plan('tiny', place),
    options: {
      ...{ on: ALL, hardware: ALL, gpus: ALL, gpusPerNode: ALL, nicGbit: ALL, stack: ALL, attention: ALL },
      ...{ fp8: ALL, dispatcher: ALL, cudaGraph: ALL, trainedShare: ALL, exampleTokens: ALL },
    },
  },
  recommend: {
    call: (options) => recommend('tiny', options),
    needs: { gpus: 1 },
    options: {
      ...strict('top'),
      ...{
        on: ALL,
        hardware: ALL,
        gpus: ALL,
        by: ALL,
        fewestGpus: ALL,
        globalBatch: ALL,
        within: ALL,
        prices: ALL,
      },
    },
  },
  readConfig: {
    call: (options) => readConfig('torchrun --nproc_per_node=2 train.py --bf16', options),
    options: strict('cwd', 'world'),
  },
  advice: {
    call: (options) => advice(options),
    needs: { models: [], gpus: [], hardware: [], nicGbit: [] },
    options: { ...strict('models', 'gpus', 'hardware'), nicGbit: [] },
  },
  predictions: {
    call: (options) => ownRuns(options, () => undefined),
    options: strict('worlds', 'links', 'modelParallel', 'rounds'),
  },
  reshard: {
    call: (options) => planReshard({ config: parseTrainConfig({ model: 'tiny' }), world: 1 }, options, 2),
    needs: { strategy: 'FULL_SHARD' },
    options: { ...strict('world', 'redundantExperts'), ep: [] },
  },
  'sl.claims': { call: (options) => claims(options), options: strict('id', 'document', 'kind', 'verdict') },
};

/** Functions and classes of ranks. */
const RANKS: Readonly<Record<string, Call>> = {
  'a save': {
    call: (options) => checkSaveOptions(options),
    options: { ...strict('type', 'maxShardBytes', 'dtype'), trainer: ALL },
  },
  initializeModelParallel: {
    call: (options) => initializeModelParallel(GROUP, options),
    options: {
      ...strict('tensorModelParallelSize', 'pipelineModelParallelSize'),
      ...strict('contextParallelSize', 'expertModelParallelSize'),
    },
  },
  FSDP: {
    call: (options) => fsdpSettings(options, warn),
    options: {
      ...strict('forwardPrefetch', 'limitAllGathers', 'syncModuleStates', 'deviceMesh', 'useOrigParams'),
      ...strict('shardingStrategy'),
      ...{ autoWrapPolicy: ['null'], mixedPrecision: ['null'], backwardPrefetch: ['null'] },
      ...{ cpuOffload: ['null'], ignoredModules: ['null'], processGroup: Object.keys(WRONG) as Kind[] },
    },
  },
  fullyShard: {
    call: (options) => fullyShardOptions(options),
    options: {
      ...strict('strategy', 'forwardPrefetch', 'limitAllGathers', 'ignoredModules', 'syncModuleStates'),
      ...strict('precision', 'sparseGradients', 'offloadParameters', 'mesh', 'mpPolicy', 'offloadPolicy'),
      ...{ reshardAfterForward: ['null'], backwardPrefetch: ['null'] },
    },
  },
  DDP: {
    call: (options) => ranks().DDP(gpt(SIZES), options),
    options: {
      ...strict('bucketBytes', 'firstBucketBytes', 'policy', 'precision', 'broadcastBuffers', 'mesh'),
      ...strict('sparseGradients'),
      commHook: ['null'],
    },
  },
  fromFairScale: {
    call: (options) => fromFairScale(options, warn),
    options: {
      ...strict('reshard_after_forward', 'mixed_precision', 'fp32_reduce_scatter', 'cpu_offload'),
      ...strict('move_params_to_cpu', 'move_grads_to_cpu'),
    },
  },
  MixedPrecisionPolicy: {
    call: (options) => MixedPrecisionPolicy(options),
    options: {
      ...strict('castForwardInputs', 'keepLowPrecisionGrads'),
      ...{ paramDtype: ['null'], reduceDtype: ['null'], outputDtype: ['null'], bufferDtype: ['null'] },
    },
  },
  summonFullParams: {
    call: (options) => summonFullParams(engine, gpt(SIZES), () => undefined, options),
    options: strict('writeback'),
  },
  fsdpModules: { call: (options) => fsdpModules(gpt(SIZES), options), options: strict('rootOnly') },
  reductionError: {
    call: (options) => simulateReductionError(options),
    options: strict('dtypes', 'sizes', 'scales', 'worlds', 'distributions', 'lossScales', 'seed'),
  },
  CPUOffload: { call: (options) => CPUOffload(options), options: strict('offloadParams') },
  CPUOffloadPolicy: { call: (options) => CPUOffloadPolicy(warn, options), options: strict('pinMemory') },
  checkpointWrapper: {
    call: (options) => checkpointWrapper({ engine, observer: SILENT, warn }, new Linear(2, 2), options),
    options: strict('impl', 'offloadToHost'),
  },
  pipelineStages: {
    call: (options) => pipelineStages(gpt(SIZES), options),
    needs: { group: GROUP },
    options: { ...strict('virtualStages', 'example'), split: ALL },
  },
  'a schedule': {
    call: (options) => new PipelineSchedule('1f1b', [], options, RUN),
    needs: { numMicrobatches: 1 },
    options: strict('numMicrobatches', 'lossFn'),
  },
  applyExpertParallel: {
    call: (options) => applyExpertParallel(new Linear(2, 2), { ep: GROUP, edp: GROUP }, options),
    options: { placement: ['null'] },
  },
  parallelizeTensors: {
    call: (options) => parallelizeTensors(gpt(SIZES), { group: GROUP, warn }, options),
    options: strict('sequenceParallel'),
  },
  ColumnParallelLinear: {
    call: (options) => new ColumnParallelLinear(2, 2, options),
    needs: { group: GROUP },
    options: {
      ...strict('gatherOutput', 'sequenceParallel', 'heads', 'parts', 'bias', 'init'),
      group: ['date'],
    },
  },
  RowParallelLinear: {
    call: (options) => new RowParallelLinear(2, 2, options),
    needs: { group: GROUP },
    options: { ...strict('inputIsParallel', 'sequenceParallel', 'bias', 'init'), group: ['date'] },
  },
  VocabParallelEmbedding: {
    call: (options) => new VocabParallelEmbedding(2, 2, options),
    needs: { group: GROUP },
    options: { ...strict('sequenceParallel', 'init'), paddingIdx: ['null'], group: ['date'] },
  },
  ColwiseParallel: {
    call: (options) => ColwiseParallel(options),
    options: strict('inputLayouts', 'outputLayouts', 'heads', 'parts'),
  },
  RowwiseParallel: {
    call: (options) => RowwiseParallel(options),
    options: strict('inputLayouts', 'outputLayouts'),
  },
  'context parallelism': {
    call: (options) => new ContextParallel(GROUP, options),
    options: strict('kind', 'ulyssesDegree', 'order'),
  },
};

/** The functions of a rank alone. */
function ranks() {
  const mesh = { group: GROUP, axisNames: ['dp'] } as never; // DDP refuses the options before it uses the mesh
  return rankFsdp({ world: {}, engine, observer: SILENT, warn, batchNorms: { check: warn } as never }, mesh);
}

async function refused(call: () => unknown, message: RegExp, what: string): Promise<void> {
  await assert.rejects(async () => await call(), { code: 'CONFIG', message }, what);
}

for (const [name, { call, needs = {}, options }] of Object.entries({ ...NOTEBOOK, ...RANKS })) {
  test(`${name} refuses options that it does not have, and values that an option cannot have`, async () => {
    await refused(() => call(null as never), /null|by name|as \{ group \}/, `${name}(null)`);
    await refused(
      () => call({ ...needs, noSuchOption: 1 } as never),
      /noSuchOption/,
      `${name}({ noSuchOption })`,
    );
    for (const [option, taken] of Object.entries(options)) {
      for (const [kind, value] of Object.entries(WRONG)) {
        if (taken.includes(kind as Kind)) continue;
        const given = { ...needs, [option]: value };
        await refused(
          () => call(given as never),
          new RegExp(`\\b${option}\\b(?!.*a value of another type)`),
          `${name}({ ${option}: ${kind} })`,
        );
      }
    }
  });
}
