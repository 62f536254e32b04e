import { modelShape, ownData, type TrainConfig } from '../../config';
import { type Bytes, ConfigError, ShardlabError, type Warn } from '../../core';
import type * as tf from '../../core/tf';
import {
  type KernelCosts,
  type MetaEngine,
  type PartPass,
  type PartRepeats,
  recordPart,
  withMetaEngine,
} from '../../engine';
import { Recorder, type StepRecord } from '../../ledger';
import { type BatchSource, createTrainer, type OwnParts, type PreparedData } from '../../training';
import { type CallWatch, type CollectiveCosts, joinMetaWorld, type ProcessGroup } from '../../wire';
import { type DryRunEvent, EventLog } from './event-log';
import { PartRecorder, PassBuffers, type StoredPass } from './part-recorder';
import { type Half, NotRepeated, passStateKey, RepeatedPass } from './repeated-pass';
import type { PassSegment } from './segment';

/** Simulated times of kernels and collectives. */
export interface DryRunCosts {
  /** Returns the time of a kernel. Default: kernels take no time. */
  readonly kernel?: KernelCosts;
  /** Returns the time of a collective. Default: collectives take no time. */
  readonly collective?: CollectiveCosts;
  readonly watch?: CallWatch;
  /** A function that is called before each step. */
  readonly beginStep?: () => void;
}

/** Options for the steps of any rank. */
export interface RankStepOptions {
  /** Number of ranks; it may be large, because only the chosen ranks run. */
  readonly world: number;
  /** Simulated times of kernels and collectives. Default: nothing takes time. */
  readonly costs?: DryRunCosts;
  /** Number of steps. Default 2: the first step makes optimizer states, the second is like all later steps. */
  readonly steps?: number;
  /** Whether matmuls run in a BLAS library, as on ranks that find such a library. Default true. */
  readonly blas?: boolean;
  /** The most bytes that the device may hold; beyond it, the error OUT_OF_MEMORY lists the held bytes. Default: no limit. */
  readonly memoryLimit?: Bytes;
  /** Whether records contain every allocation and free, which figures of memory over time need. Default true. */
  readonly curve?: boolean;
  /** Whether all events are stored for `eventsOf`. Default false. */
  readonly events?: boolean;
  /** Whether equal microbatches of a pipeline may be executed once ([Note: repeated microbatches]). Default true. */
  readonly repeats?: boolean;
  /** Gets warnings about settings without effect; in a notebook they are shown in the cell's output. */
  readonly warn?: Warn;
}

/** What a model, loss or data of the user's own needs to run on the meta engine. */
export interface MetaPlace {
  readonly rank: number;
  readonly engine: MetaEngine;
  /** The group of all ranks. */
  readonly group: ProcessGroup;
  readonly recorder: Recorder;
}

/** The user's functions in a dry run. */
export interface MetaOwn {
  /** Makes the parts of a trainer that call the user's functions. */
  readonly parts: (place: MetaPlace, config: TrainConfig) => OwnParts;
  /** The user's data, if it is prepared ([Note: prepared data]). */
  readonly data?: PreparedData | undefined;
}

/** Options for the steps of one rank. */
interface RankRunOptions extends RankStepOptions {
  readonly config: TrainConfig;
  readonly rank: number;
  readonly own?: MetaOwn | undefined;
  /** A function that is called after each step. */
  readonly stepped?: () => void;
}

/** The results of one rank. */
export interface RankRun {
  readonly rank: number;
  readonly numParams: number;
  /** One record per step. */
  readonly records: readonly StepRecord[];
  /** The events while the trainer was built, then the events of each step; empty lists if events are not stored. */
  readonly events: readonly (readonly DryRunEvent[])[];
}

/** Builds a config's trainer as rank `rank` of `world` on the meta engine, and runs its steps. */
export function runRank(options: RankRunOptions): RankRun {
  const { costs = {}, blas = true, memoryLimit } = options;
  const run = (repeats: Repeats): RankRun =>
    withMetaEngine({ blas, memoryLimit, costs: costs.kernel }, (engine) => stepped(engine, options, repeats));
  try {
    if (!mayRepeat(options)) return run('none');
    return unlessRepeated(
      () => run('all'),
      () =>
        unlessRepeated(
          () => run('later'),
          () => run('none'),
        ),
    );
  } catch (error) {
    throw explained(error);
  }
}

/** Returns a run's result. If the run finds that a part has no equal part before it, returns the result of `runAgain`. */
function unlessRepeated(run: () => RankRun, runAgain: () => RankRun): RankRun {
  try {
    return run();
  } catch (error) {
    if (error instanceof NotRepeated) return runAgain();
    throw error;
  }
}

/** Whether microbatches may be repeated; see [Note: repeated microbatches]. */
function mayRepeat({ repeats = true, config, costs, memoryLimit, own }: RankRunOptions): boolean {
  const hasTimes = costs?.kernel !== undefined || costs?.collective !== undefined;
  // If parameters are sharded over fewer ranks between forward and backward, the recorder does not recognize them as gathered.
  const isKnown = typeof config.parallel.reshardAfterForward !== 'number';
  return repeats && isKnown && !hasTimes && memoryLimit === undefined && own === undefined;
}

function stepped(engine: MetaEngine, options: RankRunOptions, repeats: Repeats): RankRun {
  const { config, world, rank, steps = 2, curve = true, warn } = options;
  const recorder = new Recorder({ rank, world }, () => engine.clock.now());
  const log = options.events === true ? new EventLog(recorder) : null;
  const observer = new PartRecorder(engine, log ?? recorder);
  engine.observe(observer);
  const { groupMade } = observer;
  const { collective, watch } = options.costs ?? {};
  const group = joinMetaWorld({ rank, world, engine, observer, costs: collective, watch, groupMade });
  const record = repeatedParts(observer, repeats);
  const own = options.own?.parts({ rank, engine, group, recorder }, config);
  const data = options.own?.data;
  const batches = data === undefined ? blankBatches(config) : undefined;
  const trainer = createTrainer({ config, engine, group, observer, batches, data, own, warn, record });
  const numParams = trainer.numParams;
  const events = [log?.take() ?? []];
  const records = Array.from({ length: steps }, (_, i) => {
    options.costs?.beginStep?.();
    recorder.beginStep(i + 1);
    const { tokens } = trainer.step();
    const record = recorder.endStep({ tokens: tokens / world, engineBytes: engine.memory.bytes, curve });
    events.push(log?.take() ?? []);
    options.stepped?.();
    return record;
  });
  return { rank, numParams, records, events };
}

/** 1 GiB of tokens. */
const MOST_TOKENS = 2 ** 28;

/** Returns batches of the config's shape; all tokens are 0, because nothing reads them. Undefined: the inputs are not tokens. */
function blankBatches(config: TrainConfig): BatchSource | undefined {
  const shape = modelShape(config);
  const { data, dpo } = config;
  const batch = dpo === null ? config.batch : 2 * config.batch; // a pair has two rows
  const seq = 'seq' in shape ? shape.seq : ownData(data)?.seq;
  if (seq === undefined) return undefined;
  if (batch * seq > MOST_TOKENS)
    throw new ConfigError(
      `batch ${batch} x seq ${seq} is more than the ${MOST_TOKENS} tokens that a batch of a dry run can have; use a smaller batch`,
    );
  const tokens = new Int32Array(batch * (seq + 1));
  return { name: 'blank', batch: () => ({ batch, seq, tokens }) };
}

/** The message of tfjs about a kernel that a backend does not have. */
const MISSING = /Cannot find registered kernel '(\w+)' for backend 'meta'/;

function explained(error: unknown): unknown {
  const kernel = error instanceof Error ? MISSING.exec(error.message)?.[1] : undefined;
  if (kernel === undefined) return error;
  return new ShardlabError(
    'ENGINE',
    `A dry run does not know how much memory the operation ${kernel} needs, because the library's models do not use it. Add ` +
      'the operation to meta-engine.ts, with the memory that its wasm kernel allocates, or leave it out of the model.',
    { details: { kernel }, cause: error },
  );
}

/** Which parts may be repeated; 'later': all parts except the first part that adds to earlier gradients. */
export type Repeats = 'all' | 'later' | 'none';

function includes(repeats: Repeats, { isFirstToAdd }: PartRepeats): boolean {
  return repeats === 'all' || (repeats === 'later' && !isFirstToAdd);
}

/**
 * Executes only the first of equal parts of a pipeline (a part: a microbatch's forward, backward or half of a backward), and
 * repeats the events of this part for the other parts.
 *
 * [Note: repeated microbatches] All microbatches of a stage run the same calls, except the first one (which makes gradients) and
 * the last one (which reduces gradients). So one of them is executed, and its events are stored: what it allocated, tagged and
 * freed, its collectives and spans. For another microbatch, these events happen again with buffers of its own, in the order of
 * the schedule; peaks and records are then those of a run that executes everything. Two forwards are equal if they begin with the
 * same gathered parameters, and if the same gradients exist at all actions of their microbatches. Two backwards are equal if, in
 * addition, they begin and end with the same gradients. If an earlier forward was equal, but no earlier backward is, the
 * rank runs again: first without a repetition of microbatch 1, then without any repetition. (With 16-bit gradients, only
 * microbatch 1 finds the gradients of exactly one microbatch.)
 * If parameters are sharded, what a part gathers depends on the parts before it: a forward leaves the root's parameters whole,
 * and a backward gathers ahead in the order of the last forward. So parts are equal only if this state (`GatherState`) is
 * equal, and a repeated part sets the state as the executed part did. Nothing is repeated if parameters are sharded over fewer
 * ranks between forward and backward, if there are costs (times depend on what else runs), a memory limit, or functions of the
 * user.
 */
function repeatedParts(recorder: PartRecorder, repeats: Repeats): typeof recordPart {
  const known = new Map<string, PassSegment>();
  /** Describes gathered parameters and gradients before the last part that cannot be repeated, such as a step's first part. */
  let before = '';
  return (engine, part) => {
    recorder.settle();
    if (part.repeats === undefined) before = recorder.state();
    if (part.repeats === undefined || !includes(repeats, part.repeats))
      return settling(recorder, recordPart(engine, part));
    const { text, gathers } = part.repeats;
    const key = [text, recorder.parameters(), before, gathers?.describe()].join(' ');
    const forward = known.get(key);
    if (forward !== undefined) return new RepeatedPass(recorder, forward, part.repeats);
    const store = (segment: PassSegment): void => void known.set(key, segment);
    return new FirstPass(recorder, part.repeats, () => recordPart(engine, part), store);
  };
}

/** A pass that is executed; its collectives are reported with the part that posted them. */
function settling(recorder: PartRecorder, pass: PartPass): PartPass {
  const settled = <T>(work: () => T): T => {
    recorder.settle();
    const made = work();
    recorder.settle();
    return made;
  };
  recorder.settle();
  return {
    output: pass.output,
    backward: (seed) => settled(() => pass.backward(seed)),
    backwardInput: (seed) => settled(() => pass.backwardInput(seed)),
    backwardWeight: () => settled(() => pass.backwardWeight()),
    dispose: () => pass.dispose(),
  };
}

/** A pass that is executed, and whose events are stored. */
class FirstPass implements PartPass {
  readonly output: tf.Tensor;
  readonly #recorder: PartRecorder;
  readonly #pass: PartPass;
  readonly #own: StoredPass;
  #last: PassSegment | null;

  constructor(
    recorder: PartRecorder,
    { inputs: tensors, gathers }: PartRepeats,
    forward: () => PartPass,
    store: (segment: PassSegment) => void,
  ) {
    this.#recorder = recorder;
    this.#own = { buffers: new PassBuffers(), gathers };
    const tensorsBySlot = new Map(tensors.map((tensor, i) => [`given ${i}`, tensor]));
    const { made, segment } = recorder.record(this.#own, tensorsBySlot, forward, ({ output }) => output);
    this.#pass = made;
    this.#last = segment;
    this.output = made.output;
    if (segment !== null) store(segment);
  }

  backward(seed: tf.Tensor): tf.Tensor | null {
    return this.#stored('backward', seed, () => this.#pass.backward(seed));
  }

  backwardInput(seed: tf.Tensor): tf.Tensor | null {
    return this.#stored('backwardInput', seed, () => this.#pass.backwardInput(seed));
  }

  backwardWeight(): void {
    const work = (): null => {
      this.#pass.backwardWeight();
      return null;
    };
    this.#stored('backwardWeight', null, work);
  }

  dispose(): void {
    this.#pass.dispose();
  }

  #stored(half: Half, seed: tf.Tensor | null, work: () => tf.Tensor | null): tf.Tensor | null {
    const key = passStateKey(half, this.#recorder, this.#own.gathers);
    const tensorsBySlot = new Map(seed === null ? [] : [['seed', seed]]);
    const { made, segment } = this.#recorder.record(this.#own, tensorsBySlot, work, (result) => result);
    const isWhole = half === 'backwardInput' || this.#own.buffers.open.size === 0;
    if (segment !== null && isWhole) this.#last?.next.set(key, segment);
    this.#last = segment;
    return made;
  }
}
