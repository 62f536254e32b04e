import { type DitConfig, modelShape, type TrainConfig } from '../config';
import { ConfigError } from '../core';
import type { BatchesMade, BatchesNeeded, MadeTensor } from '../launch';
import { LRSchedule, rateOf, requireGroups, type ScheduleState } from '../sharding';
import {
  type AnswerLabels,
  type BatchColumn,
  type BatchesOf,
  createBatches,
  type DataMark,
  dataMark,
  inputParts,
  type LatentBatch,
  type PreparedData,
  type TokenBatch,
  velocityPart,
  videosOf,
} from '../training';

/**
 * [Note: batches for Python ranks] Ranks of PyTorch ask the launcher for their microbatches, so data, seeds and epochs have one
 * implementation. So a run on PyTorch sees the same tokens or noised videos in the same order as a run of this library. For the
 * same reason, the launcher also sends the learning rate of each step. Ranks ask early, so they do not wait for microbatches.
 */
export class TorchBatches {
  readonly #config: TrainConfig;
  readonly #source: BatchesOf<Microbatch>;
  readonly #prepared: PreparedData | undefined;
  readonly #rates: Rates;
  readonly #schedule: LRSchedule | null;

  /** `world` is the number of ranks of the run. Throws: CONFIG for data that do not fit the model. */
  constructor(config: TrainConfig, world: number, prepared: PreparedData | undefined) {
    const { tp, pp, cp } = config.parallel;
    this.#config = config;
    this.#prepared = prepared;
    this.#source = sourceOf(config, world / (tp * pp * cp), prepared);
    this.#rates = new Rates(config.optimizer);
    const { schedule, steps } = config;
    this.#schedule = schedule && new LRSchedule(this.#rates, rateOf(schedule, steps));
  }

  /** Returns the state of the data and of the schedule that a checkpoint stores after `steps` updates. */
  stateAfter(steps: number): { readonly data: DataMark; readonly schedule: ScheduleState | null } {
    const data = dataMark({ config: this.#config, data: this.#prepared });
    if (this.#schedule === null) return { data, schedule: null };
    this.#moveTo(steps);
    return { data, schedule: this.#schedule.state() };
  }

  /** Sets the number of updates after which the schedule gives the rates; rates that were set for another step do not count. */
  #moveTo(steps: number): void {
    if (this.#schedule === null) return;
    const { setLrs, ...state } = this.#schedule.state();
    const holds = setLrs !== undefined && state.steps === steps;
    this.#schedule.restore({ ...state, steps, ...(holds && { setLrs }) });
  }

  /** Continues from a checkpoint's state. */
  restore(lrs: readonly number[], schedule: ScheduleState | null): void {
    if (this.#schedule === null) this.#rates.set(lrs);
    else this.#schedule.restore(schedule);
  }

  /** Sets the learning rate of the step after `steps` updates; a schedule continues from this rate. */
  setRate(lr: number, steps: number): void {
    this.#moveTo(steps);
    this.#rates.lr = lr;
    this.#schedule?.state();
  }

  /** Makes the batches that a rank requests. Throws: CONFIG if the data has no validation rows, and errors of the data. */
  make({ run, what, rank, first, count, skipped = 0 }: BatchesNeeded): BatchesMade {
    if (what === 'validation') return this.#validation({ run, rank, first, count });
    const indices = Array.from({ length: count }, (_, i) => first + i);
    const batches = joined(indices.map((index) => this.#source.batch(rank, index, first)));
    const { accumulation } = this.#config;
    const steps = indices.filter((index) => index % accumulation === 0).map((index) => index / accumulation);
    return { run, first, ...batches, lrs: steps.map((step) => this.#ratesOf(step - skipped)) };
  }

  /** Returns the rates of the groups in the step after `steps` updates. */
  #ratesOf(steps: number): number[] {
    return this.#schedule === null ? this.#rates.all : this.#schedule.lrsAt(steps + 1);
  }

  #validation({ run, rank, first, count }: Omit<BatchesNeeded, 'what' | 'skipped'>): BatchesMade {
    const { validation } = this.#source;
    if (this.#source === OF_RANKS)
      throw new ConfigError(
        'evaluate: the function that model.batches names makes batches of training only; compute a loss in a %%ranks --python cell',
      );
    if (validation == null) {
      throw new ConfigError(
        'evaluate needs rows that are never trained on, and this run has none; give them in the config, as data: { path: ' +
          "'./text.txt', validation: 0.1 }",
      );
    }
    const end = Math.min(first + count, validation.numBatches);
    const made = Array.from({ length: Math.max(0, end - first) }, (_, i) =>
      validation.batch(rank, first + i),
    );
    return {
      run,
      first,
      ...joined(made.map(({ batch }) => batch)),
      lrs: [],
      counts: made.map(({ counted }) => counted),
      last: end === validation.numBatches,
    };
  }
}

/** The learning rates of an optimizer's groups: first of the parameters in no named group, then of each named group. */
class Rates {
  readonly paramGroups: readonly { lr: number }[];

  constructor({ lr, groups }: TrainConfig['optimizer']) {
    this.paramGroups = [{ lr }, ...groups.map((group) => ({ lr: group.lr ?? lr }))];
  }

  get all(): number[] {
    return this.paramGroups.map(({ lr }) => lr);
  }

  get lr(): number {
    return this.all[0] ?? 0;
  }

  /** Sets the rate of every group. */
  set lr(lr: number) {
    this.set(this.all.fill(lr));
  }

  /** Sets each group's rate. Throws: CONFIG for another number of groups. */
  set(lrs: readonly number[]): void {
    requireGroups(this.paramGroups.length, lrs.length);
    for (const [i, group] of this.paramGroups.entries()) group.lr = lrs[i] ?? group.lr;
  }
}

/** The rows of one microbatch, with one array per tensor. */
interface Microbatch {
  readonly batch: number;
  readonly columns: readonly BatchColumn[];
  readonly answers?: AnswerLabels | undefined;
}

function sourceOf(
  config: TrainConfig,
  world: number,
  prepared: PreparedData | undefined,
): BatchesOf<Microbatch> {
  const shape = modelShape(config);
  if (shape.kind === 'python' && shape.batches !== undefined) return OF_RANKS;
  if (shape.kind !== 'dit') return mapped(createBatches(config, { world, prepared }), ofTokens);
  const encodes = config.textEncoder !== null;
  return mapped(videosOf({ config, shape, world, prepared }), (videos) => ofVideos(shape, videos, encodes));
}

/** Batches without tensors: the function of a model in Python makes them in the ranks. */
const OF_RANKS: BatchesOf<Microbatch> = {
  name: 'model.batches',
  batch: () => ({ batch: 0, columns: [] }),
};

/** Converts all batches of a source. */
function mapped<Batch>(
  { name, batch, validation = null }: BatchesOf<Batch>,
  convert: (batch: Batch) => Microbatch,
): BatchesOf<Microbatch> {
  return {
    name,
    batch: (rank, index, first) => convert(batch(rank, index, first)),
    validation: validation && {
      ...validation,
      batch(rank, index) {
        const made = validation.batch(rank, index);
        return { ...made, batch: convert(made.batch) };
      },
    },
  };
}

function ofTokens({ batch, seq, tokens, answers }: TokenBatch): Microbatch {
  const ids: BatchColumn = { shape: [seq + 1], dtype: 'int32', values: tokens };
  if (answers === undefined) return { batch, columns: [ids] };
  return { batch, columns: [ids, { shape: [seq], dtype: 'int32', values: answers.labels }], answers };
}

/** Converts videos. `encodes`: whether ranks encode the texts, so that they get the tokens of the texts. */
function ofVideos(shape: DitConfig, videos: LatentBatch, encodes: boolean): Microbatch {
  const { batch, tokens } = videos;
  const parts = { velocity: velocityPart(shape, videos), ...inputParts(shape, videos) };
  const columns = Object.entries(parts).map(([name, { shape: extents, fill }]): BatchColumn => {
    if (name === 'text' && encodes && tokens !== null)
      return { shape: [shape.textLen], dtype: 'int32', values: tokens };
    const values = new Float32Array(extents.reduce((product, extent) => product * extent, batch));
    fill(values);
    return { shape: extents, dtype: 'float32', values };
  });
  return { batch, columns };
}

/** Joins microbatches. A microbatch with fewer rows than the largest is padded with zeros. */
function joined(batches: readonly Microbatch[]): Pick<BatchesMade, 'tensors' | 'answers'> {
  const rows = Math.max(0, ...batches.map(({ batch }) => batch));
  const [{ columns } = { columns: [] }] = batches;
  const tensors = columns.map(({ shape, dtype }, column): MadeTensor => {
    const size = shape.reduce((product, extent) => product * extent, rows);
    const values = new (dtype === 'int32' ? Int32Array : Float32Array)(batches.length * size);
    for (const [i, batch] of batches.entries()) values.set(batch.columns[column]?.values ?? [], i * size);
    return { shape: [batches.length, rows, ...shape], values };
  });
  const all = batches.flatMap(({ answers }) => answers ?? []);
  if (all.length === 0) return { tensors };
  const documents = all.flatMap((answers) => (answers.documents === null ? [] : [answers.documents]));
  const factors = all.map(({ factor }) => factor);
  return { tensors, answers: { documents: documents.length === 0 ? null : documents, factors } };
}
