import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import type { CollectiveEvent } from '../../src/core/events';
import * as tf from '../../src/core/tf';
import { TemperatureGating } from '../../src/nn/moe/temperature-gating';
import { dryRun } from '../../src/planner/dry-run/dry-run';
import { type DryRunEvent, EventLog } from '../../src/planner/dry-run/event-log';
import { createTrainer } from '../../src/training/trainer';
import { type RankArgs, runAsRank, type TestRank } from '../support/rank-process';

/** Compares a real rank's events with those of its dry run. */
export interface DryRunComparison {
  /** Allocations, retags, frees and spans that are equal, in order. */
  readonly numEvents: number;
  readonly numCollectives: number;
  /** The first difference: the real rank's event and the dry run's; null if there is none. */
  readonly difference: { readonly at: string; readonly real: string; readonly dry: string } | null;
  readonly realPeak: number;
  readonly dryPeak: number;
}

interface DryRunArgs extends RankArgs {
  readonly configs: readonly TrainConfigInput[];
  readonly steps: number;
}

runAsRank<DryRunArgs>((rank) => {
  spreadEvenly();
  const log = new EventLog();
  rank.engine.observe(log);
  return rank.args.configs.map((config) => compare(rank, log, config));
});

/** Makes gates behave as a dry run assumes: rows go to experts in turn, whatever the gate computes. */
function spreadEvenly(): void {
  const { forward } = TemperatureGating.prototype;
  TemperatureGating.prototype.forward = function (x: tf.Tensor): tf.Tensor {
    const gates = forward.call(this, x);
    const [rows = 0, experts = 0] = gates.shape;
    const inTurn = tf.tensor1d(
      Array.from({ length: rows }, (_, row) => row % experts),
      'int32',
    );
    return tf.add(tf.mul(gates, 0), tf.cast(tf.oneHot(inTurn, experts), 'float32'));
  };
}

/** Trains for real, then without values in the same process. */
function compare(rank: TestRank<DryRunArgs>, log: EventLog, input: TrainConfigInput): DryRunComparison {
  const { engine, group, args, tally } = rank;
  const config = parseTrainConfig(input);
  log.take();
  tally.restart();
  const trainer = createTrainer({ config, engine, group, observer: log });
  const real = [log.take()];
  for (let i = 0; i < args.steps; i++) {
    trainer.step();
    real.push(log.take());
  }
  // The group reports to another observer.
  const sent = collectivesOf(tally.collectives);
  trainer.dispose();
  const options = { world: group.size, rank: group.rank, steps: args.steps, events: true };
  const run = dryRun(input, { ...options, blas: engine.blas.library !== null });
  const dry = run.eventsOf();
  const imagined = collectivesOf(dry.flat().filter((event) => event.kind === 'collective'));
  return {
    ...firstDifference(real.map(ordered), dry.map(ordered), [sent, imagined]),
    realPeak: peakOf(real.flat()),
    dryPeak: run.peak.heldBytes,
  };
}

/** The events of the main thread in their order. The moment at which a collective is found complete depends on timing. */
function ordered(events: readonly DryRunEvent[]): string[] {
  return events.flatMap((event) => {
    switch (event.kind) {
      case 'allocated': {
        const { cause, module, declared = '', part = '' } = event.tag;
        return `+${event.buffer} ${event.bytes} ${event.dtype} ${event.space} ${cause} '${module}' ${declared} ${part}`;
      }
      case 'retagged': {
        const { cause, module, declared = '', part = '' } = event.tag;
        return `~${event.buffer} ${cause} '${module}' ${declared} ${part}`;
      }
      case 'freed':
        return `-${event.buffer}`;
      case 'entered':
      case 'span':
        return `${event.kind} ${event.name} '${event.module}'`;
      case 'collective':
        return [];
      default:
        return event satisfies never;
    }
  });
}

/** Group by group in the order of their numbers; earlier groups of the same process have lower numbers. */
function collectivesOf(events: readonly CollectiveEvent[]): string[] {
  const groups = new Map<string, CollectiveEvent[]>();
  for (const event of events) groups.set(event.group, [...(groups.get(event.group) ?? []), event]);
  const told = [...groups].map(([name, ofGroup]) => {
    const title = name.replace(/ #\d+$/, '');
    return [...ofGroup].sort((a, b) => a.number - b.number).map((event) => `${title} ${spelled(event)}`);
  });
  return told.sort((a, b) => a.join().localeCompare(b.join())).flat();
}

function spelled(event: CollectiveEvent): string {
  const { ranks, op, dtype, wireDType, count, bytes, wireBytes, cause, module, async } = event;
  return [ranks, op, dtype, wireDType, count, bytes, wireBytes, cause, `'${module}'`, async].join(' ');
}

function firstDifference(
  real: readonly (readonly string[])[],
  dry: readonly (readonly string[])[],
  [realCollectives = [], dryCollectives = []]: readonly (readonly string[])[],
): Pick<DryRunComparison, 'numEvents' | 'numCollectives' | 'difference'> {
  const counts = { numEvents: real.flat().length, numCollectives: realCollectives.length };
  for (const [step, events] of real.entries()) {
    const numbers = [numbering(), numbering()] as const;
    const length = Math.max(events.length, dry[step]?.length ?? 0);
    for (let i = 0; i < length; i++) {
      const [a, b] = [numbers[0](events[i]), numbers[1](dry[step]?.[i])];
      if (a !== b) return { ...counts, difference: { at: `step ${step}, event ${i}`, real: a, dry: b } };
    }
  }
  const at = realCollectives.findIndex((event, i) => event !== dryCollectives[i]);
  if (at < 0 && realCollectives.length === dryCollectives.length) return { ...counts, difference: null };
  const [a, b] = [realCollectives[at], dryCollectives[Math.max(at, 0)]];
  return { ...counts, difference: { at: `collective ${at}`, real: a ?? 'none', dry: b ?? 'none' } };
}

/** Numbers of buffers in the order of their first use in a step, because a process also has other buffers. */
function numbering(): (event: string | undefined) => string {
  const known = new Map<string, number>();
  return (event = 'nothing') =>
    event.replace(/^[+~-]\d+/, (name) => {
      const id = name.slice(1);
      if (!known.has(id)) known.set(id, known.size);
      return `${name[0]}${known.get(id)}`;
    });
}

function peakOf(events: readonly DryRunEvent[]): number {
  const live = new Map<number, number>();
  let [held, peak] = [0, 0];
  for (const event of events) {
    if (event.kind === 'allocated' && event.space === 'device') {
      live.set(event.buffer, event.bytes);
      held += event.bytes;
      peak = Math.max(peak, held);
    } else if (event.kind === 'freed') {
      held -= live.get(event.buffer) ?? 0;
      live.delete(event.buffer);
    }
  }
  return peak;
}
