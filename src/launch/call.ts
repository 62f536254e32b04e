import { childrenCountFrom } from '../cell';
import type { ReplicaSum } from '../sharding';
import type { RankProgress } from '../training';
import type {
  CellStep,
  RankEvent,
  RankOutcome,
  RankOutput,
  RankStep,
  RankWork,
  ReachedPoint,
} from './control/messages';
import type { BatchesMade, BatchesNeeded } from './control/torch-messages';
import type { Failure } from './failure';

/** Receives a call's outputs while it runs. */
export type OutputSink = (event: RankEvent) => void;

/** Receives a call's reports while it runs. */
export interface CallSink {
  /** Called when the ranks are free, before they get the work; if the function throws, the ranks do not get the work. */
  readonly begins?: () => void;
  readonly output?: OutputSink;
  readonly step?: (rank: number, step: RankStep) => void;
  readonly cellStep?: (rank: number, step: CellStep) => void;
  readonly replicas?: (rank: number, sums: readonly ReplicaSum[]) => void;
  readonly reached?: (rank: number, reached: ReachedPoint) => void;
  /** Called when a rank has ended the work. */
  readonly rankEnded?: (rank: number) => void;
  readonly progress?: (rank: number, progress: RankProgress) => void;
  /** Returns the batches that a rank of PyTorch requests. */
  readonly need?: (need: BatchesNeeded) => BatchesMade;
}

const TITLES: Readonly<Record<Exclude<RankWork['kind'], 'cell'>, string>> = {
  put: 'job.put',
  get: 'job.get',
  function: 'job.on().run',
  python: 'job.on().python',
  train: 'job.train',
  steps: 'run.step',
  plant: 'job.plant',
  madeValues: 'run.parity',
  rate: 'run.lr',
  group: 'job.train',
  reshard: 'run.reshard',
  save: 'run.save',
  load: 'run.load',
  probe: 'the trial of a setting',
  trace: 'run.export',
  exportOwn: 'run.export',
  evaluate: 'run.evaluate',
  sampleVideo: 'run.sampleVideo',
  sample: 'run.sample',
  units: 'run.units',
  copies: 'job.heal',
  restore: 'job.heal',
  disposeRun: 'run.dispose',
  measure: 'a measurement',
  recover: 'recovery',
};

/** Work that runs on some ranks at the same time, from its start until the last rank has ended it. */
export type RankCall = ReturnType<typeof createCall>;

export function createCall(id: number, ranks: readonly number[], work: RankWork, sink: CallSink) {
  const outcomes = new Map<number, RankOutcome>();
  const cell = 'cell' in work ? work.cell : undefined;
  let resolve = (): void => undefined;
  return {
    id,
    ranks,
    work,
    sink,
    outcomes,
    /** The call's name in messages. */
    title: work.kind === 'cell' || cell !== undefined ? `cell ${cell}` : TITLES[work.kind],
    /** When the call began; processes that its ranks start later are the call's children. */
    since: childrenCountFrom(),
    failure: undefined as Failure | undefined,
    /** Resolves when every rank has ended. */
    ended: new Promise<void>((fulfil) => {
      resolve = fulfil;
    }),
    emit(rank: number, output: RankOutput): void {
      sink.output?.({ ...output, rank, cell });
    },
    /** Records a rank's outcome; later reports about the same rank are ignored. */
    end(rank: number, outcome: RankOutcome): void {
      if (outcomes.has(rank)) return;
      outcomes.set(rank, outcome);
      if (outcomes.size === ranks.length) resolve();
    },
  };
}

/** A rank that runs work. */
export interface BusyRank {
  readonly rank: number;
  readonly pid: number;
  /** Number of the call that the rank runs. */
  readonly call: number;
  /** The system call that the rank's process is in, as the end of a sentence; see [Note: native calls]. */
  readonly activity: string;
}

/** Locks ranks, so that calls on the same rank run one after the other, in order of arrival. */
export class RankLocks {
  readonly #last = new Map<number, Promise<void>>();

  /** Waits until all `ranks` are unlocked and locks them; the returned function unlocks them. */
  async acquire(ranks: readonly number[]): Promise<() => void> {
    const before = ranks.map((rank) => this.#last.get(rank));
    let release = (): void => undefined;
    const freed = new Promise<void>((resolve) => {
      release = resolve;
    });
    // All ranks are locked at once. So if two calls need the same ranks, one call gets all of them first; there is no deadlock.
    for (const rank of ranks) this.#last.set(rank, freed);
    await Promise.all(before);
    return release;
  }
}

/** The cancellation of all running calls after a failure, until ranks can work again. */
export class Cancellation {
  /** Resolves when ranks can work again. */
  readonly recovered: Promise<void>;
  /** Whether no rank runs any more and recovery has begun. */
  isRecovering = false;
  finish: () => void = () => undefined;

  /** Calls `overdue` if the cancellation is not over after `limitMs`. */
  constructor(limitMs: number, overdue: () => void) {
    const timer = setTimeout(overdue, limitMs).unref();
    this.recovered = new Promise((resolve) => {
      this.finish = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
