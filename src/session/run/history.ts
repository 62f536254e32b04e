import type { TrainConfig } from '../../config';
import { ShardlabError } from '../../core';
import type { LossesByStep } from '../../figures';
import type { EvaluatedStep, RankStep } from '../../launch';
import type { SpillFile } from '../../ledger';
import type { ExpertLoad } from '../../nn';
import type { RankRows, StepResult } from '../../training';
import { ReplicaChecks } from './replicas';
import { NUM_NEWEST, RunSteps, type WholeStep } from './steps';

/** All allocations and frees are stored for this number of newest steps; the records of older steps have only totals. */
const NUM_CURVES = 2;

/** The config and number of ranks of a run. */
export interface RunPlace {
  readonly config: TrainConfig;
  readonly world: number;
}

/** Consecutive steps that are made in the same way; in a run, with the same config and number of ranks. */
export type Phase<P> = P & {
  /** The number of the phase's first step, from 1. */
  readonly firstStep: number;
};

/** All steps so far of a run, or of a job's cells; `P` says how the steps of a phase are made. */
export class RunHistory<P extends Pick<RunPlace, 'world'> = RunPlace> {
  /** The name that the user gave the run; undefined if none. */
  name: string | undefined;
  /** How many runs of the job, with this one, began with its strategy. */
  numAlike = 1;
  readonly steps: RunSteps;
  readonly replicas: ReplicaChecks;
  /** The phases in order; a run that was never resharded has one phase. */
  readonly phases: Phase<P>[];
  /** The loss of each step, by the step's number, in order. */
  readonly #losses = new Map<number, number>();
  /** The margin of each step's pairs, by the step's number; empty unless the training is DPO. */
  readonly #margins = new Map<number, number>();
  #evaluations: readonly EvaluatedStep[] = [];
  #lastStep = 0;
  #numUpdates = 0;

  constructor(place: P, file: SpillFile, warn: (message: string) => void) {
    this.steps = new RunSteps(file, warn);
    this.replicas = new ReplicaChecks(warn);
    this.phases = [{ ...place, firstStep: 1 }];
  }

  /** The newest phase. */
  get phase(): Phase<P> {
    return placed(this.phases.at(-1));
  }

  /**
   * Returns the phase of a step, with the records of that step and of the phase's newest steps, and with the losses of all
   * steps up to the phase's end. Throws: IO if records are lost.
   */
  stepsOf(step: number) {
    const found = this.phases.findLastIndex(({ firstStep }) => firstStep <= step);
    const at = Math.max(0, found);
    const phase = placed(this.phases[at]);
    const end = this.phases[at + 1]?.firstStep ?? Number.POSITIVE_INFINITY;
    const newest = this.steps.newest(NUM_NEWEST, end).filter((record) => record.step >= phase.firstStep);
    const isThere = newest.some((record) => record.step === step);
    const records = isThere ? newest : [...this.steps.ofStep(step), ...newest];
    return { ...phase, records, allLosses: () => this.lossesByStep(1, end) };
  }

  /** Number of the last step, from 1, including the steps before a loaded checkpoint; 0 before the first. */
  get lastStep(): number {
    return this.#lastStep;
  }

  /** The number of steps so far whose update a GradScaler did not skip, also before a loaded checkpoint that had a schedule. */
  get numUpdates(): number {
    return this.#numUpdates;
  }

  /** The validation losses, by step, in order. After a load, the losses up to the checkpoint's step are those of the checkpoint. */
  get evaluations(): readonly EvaluatedStep[] {
    return this.#evaluations;
  }

  /** Stores the validation loss after the last step. */
  evaluated(loss: number): void {
    const step = this.#lastStep;
    this.#evaluations = [...this.#evaluations.filter((one) => one.step !== step), { step, loss }];
  }

  /** Losses of the steps, in order. */
  get losses(): number[] {
    return [...this.#losses.values()];
  }

  /** Number of the first step of this run; 1 before that step. */
  get firstStep(): number {
    const [first = 1] = this.#losses.keys();
    return first;
  }

  /** Margins of the same steps as `lossesByStep()`; NaN for skipped steps. Empty unless the training is DPO. */
  get margins(): number[] {
    if (this.#margins.size === 0) return [];
    const { firstStep, losses } = this.lossesByStep();
    return losses.map((_, i) => this.#margins.get(firstStep + i) ?? Number.NaN);
  }

  /** Returns the losses of steps `first` to `end` - 1; NaN for steps that the run skipped because it loaded a checkpoint. */
  lossesByStep(first = 1, end = Number.POSITIVE_INFINITY): LossesByStep {
    const losses: number[] = [];
    let firstStep = 1;
    for (const [step, loss] of this.#losses) {
      if (step < first || step >= end) continue;
      if (losses.length === 0) firstStep = step;
      while (losses.length < step - firstStep) losses.push(Number.NaN);
      losses.push(loss);
    }
    return { firstStep, losses };
  }

  /** Begins a phase: from the next step on, steps are made as `place` says. */
  begin(place: P): void {
    const firstStep = this.#lastStep + 1;
    // A phase without steps is removed.
    if (this.phase.firstStep === firstStep) this.phases.pop();
    this.phases.push({ ...place, firstStep });
  }

  /** Drops the records of steps after number `step`, which had `numUpdates` updates; the next step has number `step` + 1. */
  resume(step: number, evaluations: readonly EvaluatedStep[] = [], numUpdates: number = step): void {
    const present = this.phase;
    this.#evaluations = evaluations;
    this.steps.cut(step);
    for (const later of this.#losses.keys()) if (later > step) this.#losses.delete(later);
    for (const later of this.#margins.keys()) if (later > step) this.#margins.delete(later);
    this.phases.splice(0, this.phases.length, ...this.phases.filter(({ firstStep }) => firstStep <= step));
    this.#lastStep = step;
    this.#numUpdates = numUpdates;
    if (!isSamePlace(this.phases.at(-1), present)) this.phases.push({ ...present, firstStep: step + 1 });
  }

  /** Stores one step of all ranks. */
  keep(steps: readonly RankStep[]): StepResult {
    const [first] = steps;
    if (first === undefined) throw new ShardlabError('INTERNAL', 'a step came back without results');
    const result = withAllLoads(
      first.result,
      steps.map((step) => step.result),
    );
    this.add({ result, records: steps.flatMap(({ record }) => record ?? []) });
    return result;
  }

  /** Stores one step; its number is greater than all earlier numbers. */
  add(step: WholeStep): void {
    this.#lastStep = step.result.step;
    const { loss, rewards, skipped } = step.result;
    if (!skipped) this.#numUpdates++;
    this.#losses.set(step.result.step, loss);
    if (rewards !== undefined) this.#margins.set(step.result.step, rewards.margin);
    this.steps.add(step);
    this.steps.change(NUM_CURVES, (record) => ({ ...record, memory: { ...record.memory, curve: null } }));
  }
}

/** Adds up the experts' loads over all ranks. Ranks have different batches; in a pipeline they also have different layers. */
function withAllLoads(result: StepResult, byRank: readonly StepResult[]): StepResult {
  const experts = new Map<string, ExpertLoad>();
  for (const [layer, loads] of byRank.flatMap((one) => Object.entries(one.experts ?? {}))) {
    const sum = experts.get(layer);
    const total = (kind: 'tokens' | 'dropped'): readonly number[] =>
      loads[kind].map((rows, expert) => rows + (sum?.[kind][expert] ?? 0));
    experts.set(layer, { tokens: total('tokens'), dropped: total('dropped') });
  }
  if (experts.size === 0) return result;
  const rows = (layer: string): readonly RankRows[] => byRank.flatMap((one) => one.rankRows?.[layer] ?? []);
  const rankRows = Object.fromEntries([...experts.keys()].map((layer) => [layer, rows(layer)]));
  return { ...result, experts: Object.fromEntries(experts), rankRows };
}

function isSamePlace<P extends object>(one: Phase<P> | undefined, two: Phase<P>): boolean {
  // A phase has the fields of its place (config, world), and `firstStep`.
  const keys = Object.keys(two) as (keyof Phase<P>)[];
  return one !== undefined && keys.every((key) => key === 'firstStep' || one[key] === two[key]);
}

function placed<P>(phase: Phase<P> | undefined): Phase<P> {
  if (phase !== undefined) return phase;
  throw new ShardlabError('INTERNAL', 'a run has no config');
}
