import type { KernelCosts } from '../../backend/kernel-costs';
import { type MetaEngine, withMetaEngine } from '../../backend/meta-engine';
import { modelShape } from '../../config/settings/model';
import type { TrainConfig } from '../../config/train-config';
import { ShardlabError } from '../../core/errors';
import type { Bytes } from '../../core/units';
import type { Warn } from '../../core/warn';
import type { BatchSource } from '../../data/batch';
import { joinMetaWorld } from '../../dist/meta-world';
import type { StepRecord } from '../../ledger/record';
import { Recorder } from '../../ledger/recorder';
import { createTrainer } from '../../train/trainer';
import type { CollectiveCosts } from '../../transport/meta-plane';
import { type DryRunEvent, EventLog } from './event-log';

/** How long things take. */
export interface DryRunCosts {
  /** Default: kernels take no time. */
  readonly kernel?: KernelCosts;
  /** Default: collectives take no time. */
  readonly collective?: CollectiveCosts;
}

/** How the steps of any rank are run without values. */
export interface StepOptions {
  /** Number of ranks; any, because only those that are represented run. */
  readonly world: number;
  /** Default: nothing takes time. */
  readonly costs?: DryRunCosts;
  /** Steps. Default 2: the first one makes optimizer states, the second is like all that follow. */
  readonly steps?: number;
  /** Whether matmuls are a BLAS's, as they are on ranks that find one. Default true. */
  readonly blas?: boolean;
  /** Most bytes that the device may hold; beyond, OUT_OF_MEMORY with who holds what. Default: none. */
  readonly memoryLimit?: Bytes;
  /** Whether records keep every allocation and free: memory over time needs them. Default true. */
  readonly curve?: boolean;
  /** Whether all reports of lower layers are stored, in order, for `eventsOf`. Default false. */
  readonly events?: boolean;
  /** Takes what of the config has no effect. A notebook's goes to the cell's output. */
  readonly warn?: Warn;
}

/** What one represented rank does. */
interface RankRunOptions extends StepOptions {
  readonly config: TrainConfig;
  readonly rank: number;
}

/** Everything that one rank did. */
export interface RankRun {
  readonly rank: number;
  readonly numParams: number;
  /** One record per step. */
  readonly records: readonly StepRecord[];
  /** Events while the trainer was built, then step by step; empty if events are not stored. */
  readonly events: readonly (readonly DryRunEvent[])[];
}

/** Builds a config's trainer as rank `rank` of `world` on the meta engine, and steps it. */
export function runRank(options: RankRunOptions): RankRun {
  const { costs = {}, blas = true, memoryLimit } = options;
  try {
    return withMetaEngine({ blas, memoryLimit, costs: costs.kernel }, (engine) => stepped(engine, options));
  } catch (error) {
    throw explained(error);
  }
}

function stepped(engine: MetaEngine, options: RankRunOptions): RankRun {
  const { config, world, rank, steps = 2, curve = true, warn } = options;
  const recorder = new Recorder({ rank, world }, () => engine.clock.now());
  const log = options.events === true ? new EventLog(recorder) : null;
  const observer = log ?? recorder;
  engine.observe(observer);
  const group = joinMetaWorld({ rank, world, engine, observer, costs: options.costs?.collective });
  const trainer = createTrainer({ config, engine, group, observer, batches: blankBatches(config), warn });
  const numParams = trainer.model.numParams();
  const events = [log?.take() ?? []];
  const records = Array.from({ length: steps }, (_, i) => {
    recorder.beginStep(i + 1);
    const { tokens } = trainer.step();
    const record = recorder.endStep({ tokens: tokens / world, engineBytes: engine.memory.bytes, curve });
    events.push(log?.take() ?? []);
    return record;
  });
  return { rank, numParams, records, events };
}

/** Batches of a config's shape for a run that reads no token; undefined where the model takes something else than tokens. */
function blankBatches(config: TrainConfig): BatchSource | undefined {
  const shape = modelShape(config);
  if (!('seq' in shape)) return undefined;
  const { seq } = shape;
  const { batch } = config;
  const tokens = new Int32Array(batch * (seq + 1));
  return { name: 'blank', batch: () => ({ batch, seq, tokens }) };
}

/** tfjs's words for a kernel that a backend lacks. */
const MISSING = /Cannot find registered kernel '(\w+)' for backend 'meta'/;

function explained(error: unknown): unknown {
  const kernel = error instanceof Error ? MISSING.exec(error.message)?.[1] : undefined;
  if (kernel === undefined) return error;
  return new ShardlabError(
    'ENGINE',
    `A dry run does not know what the operation ${kernel} does with memory: it is none that models here use. Add it to ` +
      'meta-kernels.ts as its wasm kernel is, or leave it out of the model.',
    { details: { kernel }, cause: error },
  );
}
