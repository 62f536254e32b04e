import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { ConfigError, DISPLAY, type DisplayBundle, ShardlabError, type SpanName, shown } from '../../core';
import { counted, createTable, type RunView, runFigures } from '../../figures';
import { type CallSink, type CellStep, type LaunchPlan, type RankWork, warnOnStderr } from '../../launch';
import { SpillFile } from '../../ledger';
import type { ReplicaSum } from '../../sharding';
import type { StepResult } from '../../training';
import { type JobWires, phaseOf, type RecordedSteps, StepFigures } from './figures';
import { RunHistory } from './history';
import { compareCellReplicas } from './replicas';

/** The number of ranks and the code that make the steps of a phase. */
interface CellPlace {
  readonly world: number;
  readonly code: string;
}

/** A step of a cell or function on one rank. */
interface StepOfRank {
  readonly rank: number;
  readonly step: CellStep;
}

/** The title of the steps from `firstStep` on; it names the cell or function that ran. */
interface Title {
  readonly firstStep: number;
  readonly title: string;
  /** The title of the first step if earlier cells ran a part of it. Figures do not draw that part. */
  readonly part?: string;
}

/** In a step of a cell, no trainer measures the times of forward, backward and the other parts. */
const NO_SPANS = { data: 0, forward: 0, backward: 0, loss: 0, optimizer: 0 } as const;

/** What to write in a cell of an engine's ranks. */
interface CellWords {
  readonly cell: string;
  readonly call: string;
  readonly noLoss: string;
}

const WORDS: Readonly<Record<LaunchPlan['engine'], CellWords>> = {
  wasm: {
    cell: '%%ranks',
    call: 'job.on(…).run(…)',
    noLoss:
      'these steps have no loss: compute it within gradients(() => loss), or write report(loss) in the cell',
  },
  torch: {
    cell: '%%ranks --python',
    call: 'job.on(…).python(…)',
    noLoss:
      'these steps have no loss: call backward() of a loss that is one number, or write report(loss) in the cell',
  },
};

/** What all recordings of a job have. */
interface RecordingHome extends JobWires {
  readonly engine: LaunchPlan['engine'];
}

/** The recorded steps of a job's cells and functions, under one name. Shown in a notebook as one line. */
export class Recording extends StepFigures {
  /** The name that job.record gave; '' for the steps before the first name. */
  readonly name: string;
  readonly #history: RunHistory<CellPlace>;
  readonly #wires: JobWires;
  readonly #words: CellWords;
  /** The numbers of the steps that computed no loss. */
  readonly #unknown = new Set<number>();
  /** The titles of the newest cells, such as 'cell 7', with the first step of each. */
  readonly #titles: Title[] = [];
  /** The kind of the newest record if the record is not a whole step; then the next record replaces it. */
  #unfinished: CellStep['kind'] | undefined;
  /** If the newest record is of a cell without an update: the record's spans, and the title of the cell that began its step. */
  #begun: { readonly names: ReadonlySet<SpanName>; readonly title: string } | undefined;

  constructor(name: string, path: string, { engine, ...wires }: RecordingHome) {
    super();
    this.name = name;
    this.#wires = wires;
    this.#words = WORDS[engine];
    this.#history = new RunHistory<CellPlace>({ world: 0, code: '' }, new SpillFile(path), warnOnStderr);
  }

  /** Number of recorded steps; a cell without an update counts only while it is the newest. */
  get numSteps(): number {
    return this.#history.steps.numSteps;
  }

  /** Stores a step of some ranks. `code` identifies the code that ran: steps of the same code are compared. */
  add(steps: readonly StepOfRank[], title: string, code: string): void {
    const kind = kindOf(steps);
    // A cell that only made temporaries does not replace a step in the figures.
    if (kind === 'minor' && this.numSteps > 0 && this.#unfinished !== 'minor') return;
    const last = this.#history.lastStep;
    if (this.#unfinished !== undefined) this.#history.resume(last - 1);
    this.#unfinished = kind === 'step' ? undefined : kind;
    const number = this.#history.lastStep + 1;
    const place = { world: steps.length, code: kind === 'step' ? code : `${kind} ${number} ${code}` };
    const { phase } = this.#history;
    if (phase.world !== place.world || phase.code !== place.code) this.#history.begin(place);
    this.#entitle(number, this.#titleOf(steps, title));
    const records = steps.flatMap(({ step: { record } }) =>
      record === null ? [] : [{ ...record, step: number, world: steps.length }],
    );
    if (steps.every(({ step: { loss } }) => loss === null)) this.#unknown.add(number);
    else this.#unknown.delete(number);
    this.#history.add({ result: resultOf(steps, number, kind), records });
  }

  /** Returns the line that Node shows: 'fsdp: 20 steps, loss 5.6012 → 5.1124'. */
  [inspect.custom](): string {
    const losses = this.losses.filter(Number.isFinite);
    const [first, last] = [losses[0], losses.at(-1)];
    const head = `${this.name === '' ? 'recorded' : this.name}: ${counted(this.numSteps, 'step')}`;
    return first === undefined || last === undefined
      ? head
      : `${head}, loss ${first.toFixed(4)} → ${last.toFixed(4)}`;
  }

  [DISPLAY](): DisplayBundle {
    return { 'text/plain': this[inspect.custom]() };
  }

  get recorded(): RecordedSteps {
    // The curve has no point for a cell without an update, such as an evaluation.
    const losses = this.#history.losses.slice(0, this.#unfinished === undefined ? undefined : -1);
    return {
      history: this.#history,
      losses,
      none: this.#none,
      viewOf: (step) => this.#viewOf(step),
      lossFigure: () => {
        if (!losses.some(Number.isFinite)) throw new ConfigError(this.#words.noLoss);
        const { firstStep } = this.#history.lossesByStep();
        return runFigures.loss([
          { name: this.name, firstStep, losses, hasOwnLoss: true, unknown: this.#unknown },
        ]);
      },
      stepsTable: () =>
        createTable(
          this.#history.steps
            .results()
            .map(({ step, loss, lr, gradNorm, seconds }) => ({ step, loss, lr, gradNorm, seconds })),
        ),
    };
  }

  get #none(): string {
    const where = this.name === '' ? 'ranks of this job' : `ranks since job.record('${this.name}')`;
    const { cell, call } = this.#words;
    return (
      `no work of cells and functions is recorded in the ${where}, so there is nothing to draw: run a ${cell} cell or await ` +
      `${call} first. A run of job.train has its own figures, as run.memory()`
    );
  }

  #viewOf(step?: number): RunView {
    const { code: _, firstStep: __, ...view } = phaseOf(this.#history, this.#wires, step);
    const at = step ?? this.#history.lastStep;
    const { title = '', part } = this.#titles.findLast(({ firstStep }) => firstStep <= at) ?? {};
    const named = part === undefined ? this.name : `${this.name}, ${title}`;
    const strategy = this.name === '' ? title : named;
    return { ...view, strategy, hasOwnLoss: true, ...(part === undefined ? {} : { part }) };
  }

  #entitle(firstStep: number, title: Omit<Title, 'firstStep'>): void {
    while ((this.#titles.at(-1)?.firstStep ?? 0) >= firstStep) this.#titles.pop();
    if (this.#titles.at(-1)?.title !== title.title) this.#titles.push({ firstStep, ...title });
  }

  /** Returns a record's title. The title says so if earlier cells ran the step's forward or backward. [Note: steps of cells] */
  #titleOf(steps: readonly StepOfRank[], title: string): Omit<Title, 'firstStep'> {
    const names = new Set(steps.flatMap(({ step }) => step.record?.spans.map(({ name }) => name) ?? []));
    const before = names.has('forward') ? undefined : names.has('backward') ? 'forward' : 'backward';
    const begun = before !== undefined && names.size > 0 && this.#begun?.names.has(before);
    const origin = begun === true ? this.#begun?.title : undefined;
    this.#begun = this.#unfinished === undefined ? undefined : { names, title: origin ?? title };
    return origin === undefined
      ? { title }
      : { title: `${title} only (its step began in ${origin})`, part: title };
  }
}

/** Work whose steps are recorded; steps of a walk are not, because their times contain the halts. */
export type RecordedWork = Extract<RankWork, { kind: 'cell' | 'function' | 'python' }>;

/** The number of cells that a walk can run again. */
const MOST_CELLS = 32;

/** The recordings of a job. */
export class Recordings {
  readonly #folder: string;
  readonly #home: RecordingHome;
  readonly #named = new Map<string, Recording>();
  /** The newest cells, which a walk can run again. */
  readonly #cells = new Map<number, RecordedWork & { kind: 'cell' }>();
  #numMade = 0;
  #current: Recording;

  constructor({ folder, link, nodes, engine }: RecordingHome & { readonly folder: string }) {
    this.#folder = folder;
    this.#home = { link, nodes, engine };
    this.#current = this.#make('');
  }

  /** The recording to which new steps are added. */
  get current(): Recording {
    return this.#current;
  }

  /** The named recordings, in the order of their names' first use. */
  get named(): Readonly<Record<string, Recording>> {
    return Object.fromEntries(this.#named);
  }

  /** Begins a recording; it replaces a recording of the same name. Throws: CONFIG for a name that is not a text. */
  begin(name: string): Recording {
    if (typeof name !== 'string' || name.trim() === '') {
      throw new ConfigError(`job.record takes a name, as job.record('fsdp'), not ${shown(name)}`);
    }
    this.#current = this.#make(name);
    this.#named.set(name, this.#current);
    return this.#current;
  }

  /** Says that faults are planted in cells and functions; null if there are none. */
  planted: string | null = null;

  /** Runs a call of cells or functions, and adds its steps to the current recording, even if the call fails. */
  async during<T>(
    ranks: readonly number[],
    work: RecordedWork,
    call: (sink: Pick<CallSink, 'cellStep' | 'replicas'>) => Promise<T>,
  ): Promise<T> {
    const recording = this.#current;
    const title = titleOf(work);
    if (work.kind === 'cell') this.#remember(work);
    const isWalked = work.kind !== 'python' && work.walks === true;
    const steps = new StepsOfCall(ranks, (done) => {
      if (!isWalked) recording.add(done, title, codeOf(work));
    });
    try {
      const sums = new Map<number, readonly ReplicaSum[]>();
      const value = await call({
        cellStep: (rank, step) => steps.receive(rank, step),
        replicas: (rank, own) => void sums.set(rank, own),
      });
      compareCellReplicas(title, sums, steps.numUpdates);
      return value;
    } finally {
      if (this.planted !== null)
        warnOnStderr(`${this.planted} in the job's cells and functions; await job.plant([]) removes it`);
      steps.end();
    }
  }

  /** Returns the work of an earlier cell. Throws: CONFIG if no such cell has run, or if many cells have run since. */
  cellAgain(cell: number): RecordedWork & { kind: 'cell' } {
    const work = this.#cells.get(cell);
    if (work !== undefined) return work;
    const known = [...this.#cells.keys()];
    throw new ConfigError(
      `no %%ranks cell ${shown(cell)} has run in this job's ranks; ${known.length === 0 ? 'none has run' : `the last ones are ${known.join(', ')}`}`,
    );
  }

  #remember(work: RecordedWork & { kind: 'cell' }): void {
    this.#cells.set(work.cell, work);
    const [oldest] = this.#cells.keys();
    if (this.#cells.size > MOST_CELLS && oldest !== undefined) this.#cells.delete(oldest);
  }

  #make(name: string): Recording {
    return new Recording(name, join(this.#folder, `cells-${++this.#numMade}-steps`), this.#home);
  }
}

/**
 * Puts the steps of a call's ranks together: first the first step of every rank, then the second step of every rank,
 * and so on.
 */
class StepsOfCall {
  readonly #waiting: Map<number, CellStep[]>;
  readonly #done: (steps: readonly StepOfRank[]) => void;
  /** The number of steps with an update, by rank. */
  readonly numUpdates: Map<number, number>;

  constructor(ranks: readonly number[], done: (steps: readonly StepOfRank[]) => void) {
    this.#waiting = new Map(ranks.map((rank) => [rank, []]));
    this.numUpdates = new Map(ranks.map((rank) => [rank, 0]));
    this.#done = done;
  }

  receive(rank: number, step: CellStep): void {
    this.#waiting.get(rank)?.push(step);
    if (step.kind === 'step') this.numUpdates.set(rank, (this.numUpdates.get(rank) ?? 0) + 1);
    while ([...this.#waiting.values()].every((steps) => steps.length > 0)) this.#shift();
  }

  /** Adds the last steps, which only some of the ranks have made. */
  end(): void {
    while ([...this.#waiting.values()].some((steps) => steps.length > 0)) this.#shift();
  }

  #shift(): void {
    this.#done(
      [...this.#waiting].flatMap(([rank, steps]) => {
        const step = steps.shift();
        return step === undefined ? [] : [{ rank, step }];
      }),
    );
  }
}

function titleOf(work: RecordedWork): string {
  if (work.kind === 'function') return 'job.on().run';
  return work.cell === undefined ? 'job.on().python' : `cell ${work.cell}`;
}

/** Returns a hash of the code; the cell's number in its source map does not change the hash. */
function codeOf(work: RecordedWork): string {
  const text = work.kind === 'cell' ? work.js.replace(/\n\/\/# sourceMappingURL=.*$/, '') : work.source;
  return createHash('sha256').update(text).digest('base64');
}

function kindOf(steps: readonly StepOfRank[]): CellStep['kind'] {
  const kinds = steps.map(({ step }) => step.kind);
  if (kinds.includes('step')) return 'step';
  return kinds.includes('cell') ? 'cell' : 'minor';
}

function resultOf(steps: readonly StepOfRank[], number: number, kind: CellStep['kind']): StepResult {
  const [first] = steps;
  if (first === undefined) throw new ShardlabError('INTERNAL', 'a step of a cell has no ranks');
  const losses = steps.flatMap(({ step: { loss } }) => (loss === null ? [] : [loss]));
  const mean = losses.reduce((sum, loss) => sum + loss, 0) / losses.length;
  return {
    step: number,
    // The loss curve has points for steps only. If no rank has a loss, the mean is NaN.
    loss: kind === 'step' ? mean : Number.NaN,
    gradNorm: first.step.gradNorm ?? Number.NaN,
    lr: first.step.lr ?? Number.NaN,
    skipped: false,
    tokens: Number.NaN,
    seconds: Math.max(...steps.map(({ step }) => step.seconds)),
    spans: NO_SPANS,
  };
}
