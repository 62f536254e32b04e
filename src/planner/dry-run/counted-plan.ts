import { parseTrainConfig, STRATEGIES, type TrainConfigInput } from '../../config';
import { type Bytes, ConfigError, isPlain, type Seconds, type Warn } from '../../core';
import { Tensor } from '../../core/tf';
import { OPTIMIZER_UPDATES } from '../../engine';
import { logicalByCause, logicalPeak, type StepRecord, totalBytes } from '../../ledger';
import { CALIBRATION } from '../calibration';
import type { Planned } from '../cost-of';
import type { AnyLayout } from '../layout';
import { defaultGpus, offloadOf, optimizerOf, recomputeOf, strategyOf } from '../layout-of-config';
import { fitsOnGpu } from '../memory/allocator';
import { hardwareAt, type Place, parsePlace, type ReadPlace } from '../place';
import type { ComputeCause, Estimate, MemoryPrediction, Prediction } from '../prediction';
import { dryRun } from './dry-run';
import { type DryRun, phaseAt } from './dry-run-result';
import { gpuCosts, type TimedKernel } from './gpu-costs';
import { flopsOf } from './kernel-work';
import type { MetaOwn } from './rank-run';

const NO_INTERVAL =
  "no step of this library was measured on a GPU, so no interval is known; the times of kernels and collectives are from the planner's formulas";

/** Where a counted plan runs. */
export interface CountedPlace {
  readonly place: Place;
  /** Gets warnings about settings without effect. */
  readonly warn?: Warn | undefined;
}

/**
 * Plans a config whose model is the user's own. Throws: CONFIG for a key of the place that has no meaning, and all errors of a
 * dry run.
 *
 * [Note: counted plans] The planner's formulas describe the layers of known models. A model of the user's own is executed
 * instead, as rank 0 of a dry run with the planner's costs of kernels and collectives. The plan's time is therefore the time of
 * this library's kernels and schedule on such GPUs, and its memory is what this library's buffers would need in the declared
 * types. Both numbers differ from what PyTorch needs, so they are never compared with a prediction (ADR 13).
 */
export function countedPlan(input: TrainConfigInput, own: MetaOwn, at: CountedPlace): Planned<AnyLayout> {
  const { place, warn } = at;
  const request = parsePlace(place);
  requireMeaning(request);
  const hardware = hardwareAt(request);
  const { config, gpus } = configAt(input, request.gpus, hardware.gpusPerNode);
  requireOneStage(config);
  const [kernels, batches] = [new CountedKernels(), new CountedBatches(own)];
  const costs = {
    ...gpuCosts(hardware, CALIBRATION, kernels.add),
    beginStep: () => kernels.reset(),
  };
  const run = dryRun(config, { world: gpus, costs, warn: warn ?? (() => undefined) }, batches.own);
  const record = run.lastStep[0] as StepRecord; // a dry run has two steps by default
  const { accumulation, batch } = run.config;
  const microBatch = batches.rows ?? batch;
  const globalBatch = microBatch * accumulation * gpus;
  const strategy = strategyOf(run.config);
  const layout: AnyLayout = {
    model: {
      name: batches.model,
      seq: (record.tokens ?? 0) / (microBatch * accumulation),
      params: run.numParams,
    },
    hardware,
    stack: 'shardlab',
    gpus,
    dp: gpus,
    tp: 1,
    pp: 1,
    cp: 1,
    ep: 1,
    strategy,
    shards: STRATEGIES[strategy].isHybrid ? (run.config.parallel.mesh?.dpShard ?? gpus) : gpus,
    globalBatch,
    microBatch,
    numMicroBatches: accumulation,
    ...recomputeOf(run.config),
    virtualStages: 1,
    sequenceParallel: false,
    ...optimizerOf(run.config),
    ...offloadOf(run.config),
  };
  return { layout, prediction: predictionOf(run, record, kernels, layout) };
}

/** Throws: CONFIG for a pipeline, because its stages differ, and a counted plan runs one rank in place of all ranks. */
function requireOneStage({ parallel }: TrainConfigInput): void {
  const pp = parallel?.pp ?? 1;
  if (pp === 1) return;
  throw new ConfigError(
    `for a model of your own, sl.plan runs only one rank, but the ${pp} stages of parallel.pp differ; leave out pp, or call ` +
      'sl.plan(config, place, { count: true }), which runs a rank of each stage',
  );
}

/** Keys of a place that a counted plan takes. */
const TAKEN: readonly string[] = ['hardware', 'gpus', 'gpusPerNode', 'nicGbit'];

function requireMeaning(place: ReadPlace): void {
  const wrong = Object.keys(place).find((key) => !TAKEN.includes(key));
  if (wrong === undefined) return;
  throw new ConfigError(
    `plan: ${wrong} has no meaning for a model of your own, because such a model is planned by a dry run of this library; leave out ${wrong}. ` +
      `A place has the keys on, ${TAKEN.slice(1).join(', ')} here`,
  );
}

/** Returns the config with a mesh for its number of GPUs; under hybrid strategies, each node has a replica, as in a prediction. */
export function configAt(
  input: TrainConfigInput,
  chosenGpus: number | undefined,
  gpusPerNode: number,
): { readonly config: TrainConfigInput; readonly gpus: number } {
  const { parallel } = parseTrainConfig(input);
  const { mesh, strategy, tp, pp } = parallel;
  const gpus = chosenGpus ?? defaultGpus(parallel);
  const ranks = gpus / (tp * pp);
  const inNode = Math.max(1, Math.min(ranks, Math.floor(gpusPerNode / tp)));
  const dpShard = mesh?.dpShard ?? (STRATEGIES[strategy].isHybrid ? inNode : undefined);
  if (dpShard === undefined) return { config: input, gpus };
  if (!Number.isInteger(ranks / dpShard)) {
    throw new ConfigError(
      `parallel.mesh: dpShard ${dpShard} does not divide ${ranks} GPUs; change dpShard or gpus`,
    );
  }
  return {
    config: { ...input, parallel: { ...input.parallel, mesh: { dpReplicate: ranks / dpShard, dpShard } } },
    gpus,
  };
}

function predictionOf(
  run: DryRun,
  record: StepRecord,
  kernels: CountedKernels,
  layout: AnyLayout,
): Prediction {
  const { stepSeconds: seconds, exposedSeconds: exposedComm } = run;
  const received = record.collectives.reduce((sum, { wireBytes }) => sum + wireBytes, 0);
  const memory = memoryOf(record);
  const tflops = kernels.flops / seconds / 1e12;
  return {
    time: {
      seconds,
      compute: seconds - exposedComm,
      exposedComm,
      bubble: 0,
      computeByCause: { ...kernels.seconds },
      commBytes: { dp: received, tp: 0, pp: 0, cp: 0, ep: 0 },
      modelFlopsPerGpu: kernels.flops,
    },
    seconds: withoutInterval(seconds),
    tokensPerSecondPerGpu: (record.tokens ?? 0) / seconds,
    modelTflopsPerGpu: tflops,
    mfu: tflops / layout.hardware.tflops,
    memory,
    fits: fitsOnGpu(layout, memory.peakBytes),
    largestAssumption: NO_INTERVAL,
    outside: run.assumptions,
  };
}

/** Returns the memory at the moment when the bytes in the declared types are highest; gathered parameters count as temporary. */
function memoryOf(record: StepRecord): MemoryPrediction {
  const { bytes, seconds } = logicalPeak(record);
  const rest = logicalByCause(record.memory.owners, record.memory.atRest);
  const peakBytes = totalBytes(bytes);
  const params = rest['param.shard'] + rest['param.full'] + rest.buffer;
  const held = {
    params,
    grads: bytes['grad.shard'] + bytes['grad.full'],
    optimizer: bytes.optimizer,
    activations: bytes.activation + bytes.batch,
  };
  const temporary: Bytes = peakBytes - Object.values(held).reduce((sum, part) => sum + part, 0);
  return {
    peak: withoutInterval(peakBytes / 2 ** 30),
    peakBytes,
    ...held,
    temporary,
    phase: phaseAt(record, record.start + seconds),
    stage: 0,
    largestAssumption: 'an allocator would need more memory, because it leaves holes between tensors',
  };
}

function withoutInterval(value: number): Estimate {
  return { value, low: value, high: value };
}

/** Watches the user's functions in a dry run, and stores the name of the model's class and the last batch's number of rows. */
class CountedBatches {
  /** The user's functions; this object sees their results. */
  readonly own: MetaOwn;
  /** The number of rows of the last batch; null if the user's `data` is no function. */
  rows: number | null = null;
  model = '';

  constructor(own: MetaOwn) {
    this.own = {
      ...own,
      parts: (place, config) => {
        const parts = own.parts(place, config);
        const { data } = parts;
        this.model = parts.model?.constructor.name ?? '';
        if (data === null) return parts;
        return {
          ...parts,
          data: (index) => {
            const batch = data(index);
            this.rows = rowsOf(batch);
            return batch;
          },
        };
      },
    };
  }
}

/** Returns the number of rows of x, or of the first input if a batch has several inputs. */
function rowsOf(batch: unknown): number {
  if (!isPlain(batch)) return 1;
  const x: unknown = Array.isArray(batch.inputs) ? batch.inputs[0] : batch.x;
  if (x instanceof Tensor) return x.shape[0] ?? 1;
  return Array.isArray(x) || (ArrayBuffer.isView(x) && 'length' in x) ? Number(x.length) : 1;
}

const LOSS = /crossEntropy/i;

/** Sums the times of a step's kernels by cause, and the floating point operations of its matmuls and convolutions. */
class CountedKernels {
  /** Floating point operations; recomputed operations are included. */
  flops = 0;
  seconds = noSeconds();

  reset(): void {
    this.flops = 0;
    this.seconds = noSeconds();
  }

  readonly add = ({ call, work, seconds, waited }: TimedKernel): void => {
    this.flops += flopsOf(work);
    this.seconds.launch += waited;
    this.seconds[causeOf({ call, work })] += seconds;
  };
}

function noSeconds(): Record<ComputeCause, Seconds> {
  return { products: 0, attention: 0, elementwise: 0, loss: 0, optimizer: 0, launch: 0 };
}

function causeOf({ call, work }: Pick<TimedKernel, 'call' | 'work'>): ComputeCause {
  if (OPTIMIZER_UPDATES.has(call.name)) return 'optimizer';
  if (LOSS.test(call.name)) return 'loss';
  switch (work.kind) {
    case 'product':
      return 'products';
    case 'attention':
      return 'attention';
    case 'traffic':
      return 'elementwise';
    default:
      return work satisfies never;
  }
}
