import type { KernelCosts } from '../../backend/kernel-costs';
import { type MetaEngine, withMetaEngine } from '../../backend/meta-engine';
import type { TrainConfig } from '../../config/train-config';
import { ShardlabError } from '../../core/errors';
import type { Observer } from '../../core/events';
import type { Bytes } from '../../core/units';
import type { Warn } from '../../core/warn';
import { joinMetaWorld } from '../../dist/meta-world';
import type { ProcessGroup } from '../../dist/types';
import type { StepRecord } from '../../ledger/record';
import { createRecorder } from '../../ledger/recorder';
import { createTrainer } from '../../train/trainer';
import type { CollectiveCosts } from '../../transport/meta-plane';
import { blankBatches } from './blank-batches';
import { type DryRunEvent, EventLog } from './event-log';

/** How long things take. */
export interface DryRunCosts {
  /** Default: kernels take no time. */
  readonly kernel?: KernelCosts;
  /** Default: collectives take no time. */
  readonly collective?: CollectiveCosts;
}

/** What one represented rank does. */
export interface RankRunOptions {
  readonly config: TrainConfig;
  readonly world: number;
  readonly rank: number;
  readonly numSteps: number;
  readonly costs: DryRunCosts;
  readonly blas: boolean;
  readonly memoryLimit: Bytes | undefined;
  /** Whether records keep every allocation and free. */
  readonly curve: boolean;
  readonly keepsEvents: boolean;
  readonly warn: Warn | undefined;
}

/** Everything that one rank did. */
export interface RankRun {
  readonly rank: number;
  readonly numParams: number;
  /** One record per step. */
  readonly records: readonly StepRecord[];
  /** Events while the trainer was built, then step by step; empty if events are not stored. */
  readonly events: readonly (readonly DryRunEvent[])[];
  /** Bytes that the trainer held before its first step, on the device. */
  readonly builtBytes: Bytes;
}

/** Builds a config's trainer as rank `rank` of `world` on the meta engine, and steps it. */
export function runRank(options: RankRunOptions): RankRun {
  const { costs, blas, memoryLimit } = options;
  try {
    return withMetaEngine({ blas, memoryLimit, costs: costs.kernel }, (engine) => stepped(engine, options));
  } catch (error) {
    throw explained(error);
  }
}

function stepped(engine: MetaEngine, options: RankRunOptions): RankRun {
  const { config, world, rank, numSteps, curve, keepsEvents, warn } = options;
  const log = keepsEvents ? new EventLog() : null;
  const recorder = createRecorder({ rank, world }, () => engine.clock.now());
  const observer = log === null ? recorder : both(recorder, log);
  engine.observe(observer);
  const group: ProcessGroup = joinMetaWorld({
    rank,
    world,
    engine,
    observer,
    costs: options.costs.collective,
  });
  const trainer = createTrainer({ config, engine, group, observer, batches: blankBatches(config), warn });
  const builtBytes = engine.memory.bytes;
  const numParams = trainer.model.numParams();
  const events = [log?.take() ?? []];
  const records = Array.from({ length: numSteps }, (_, i) => {
    recorder.beginStep(i + 1);
    const { tokens } = trainer.step();
    const record = recorder.endStep({ tokens: tokens / world, engineBytes: engine.memory.bytes, curve });
    events.push(log?.take() ?? []);
    return record;
  });
  return { rank, numParams, records, events, builtBytes };
}

function both(first: Observer, second: Required<Observer>): Observer {
  return {
    allocated(...told) {
      first.allocated(...told);
      second.allocated(...told);
    },
    retagged(...told) {
      first.retagged(...told);
      second.retagged(...told);
    },
    freed(buffer) {
      first.freed(buffer);
      second.freed(buffer);
    },
    collective(event) {
      first.collective(event);
      second.collective(event);
    },
    span(event) {
      first.span(event);
      second.span(event);
    },
    entered: (name, module) => second.entered(name, module),
  };
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
