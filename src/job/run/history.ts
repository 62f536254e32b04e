import type { TrainConfig } from '../../config/train-config';
import { ShardlabError } from '../../core/errors';
import type { LossesByStep, RunTotals } from '../../figures/run-view';
import { createColumn } from '../../ledger/columns';
import type { StepRecord } from '../../ledger/record';
import type { StepResult } from '../../train/step-result';
import type { RankStep } from '../control/messages';
import type { StepFile } from './step-file';
import { NUM_NEWEST, RunSteps } from './steps';

/** Number of newest steps whose allocations and frees are all stored; older records have only totals. */
const NUM_CURVES = 2;

/** Steps that were made with one config on one number of ranks. */
export interface RunPhase {
  /** The number of its first step, from 1. */
  readonly firstStep: number;
  readonly config: TrainConfig;
  readonly world: number;
}

/** A phase with its newest records, and with the sums over all of its steps. */
export interface PhaseRecords extends RunPhase {
  readonly records: readonly StepRecord[];
  readonly totals: RunTotals;
}

/** The steps of a run so far. */
export class RunHistory {
  readonly steps: RunSteps;
  readonly #phases: RunPhase[];
  /** Number and loss of each step, one after the other. */
  readonly #losses = createColumn('float64');
  #lastStep = 0;

  constructor(config: TrainConfig, world: number, file: StepFile) {
    this.steps = new RunSteps(file);
    this.#phases = [{ firstStep: 1, config, world }];
  }

  /** The newest phase. */
  get phase(): RunPhase {
    return placed(this.#phases.at(-1));
  }

  /** All phases; a run that was never resharded has one. */
  get phases(): readonly RunPhase[] {
    return this.#phases;
  }

  /** The phase of a step with the records of that step and of the phase's newest ones. Throws: IO if they are lost. */
  stepsOf(step: number): PhaseRecords {
    const at = Math.max(
      0,
      this.#phases.findLastIndex(({ firstStep }) => firstStep <= step),
    );
    const phase = placed(this.#phases[at]);
    const end = this.#phases[at + 1]?.firstStep ?? Number.POSITIVE_INFINITY;
    const newest = this.steps.newest(NUM_NEWEST, end).filter((record) => record.step >= phase.firstStep);
    const isThere = newest.some((record) => record.step === step);
    const records = isThere ? newest : [...this.steps.ofStep(step), ...newest];
    const losses = (): LossesByStep => this.lossesByStep(phase.firstStep, end);
    return { ...phase, records, totals: { losses } };
  }

  /** Number of the last step, from 1, including the steps before a loaded checkpoint; 0 before the first. */
  get lastStep(): number {
    return this.#lastStep;
  }

  /** Losses of the steps, in order. */
  get losses(): number[] {
    return this.#losses.toArray().filter((_, i) => i % 2 === 1);
  }

  /** Number of the first step of this run; 1 before that step. */
  get firstStep(): number {
    return this.#losses.length === 0 ? 1 : this.#losses.at(0);
  }

  /** Losses of the steps from `first` to before `end`; NaN for steps that a loaded checkpoint skipped. */
  lossesByStep(first = 1, end = Number.POSITIVE_INFINITY): LossesByStep {
    const losses: number[] = [];
    let firstStep = 1;
    for (let at = 0; at < this.#losses.length; at += 2) {
      const step = this.#losses.at(at);
      if (step < first || step >= end) continue;
      if (losses.length === 0) firstStep = step;
      while (losses.length < step - firstStep) losses.push(Number.NaN);
      losses.push(this.#losses.at(at + 1));
    }
    return { firstStep, losses };
  }

  /** From the next step on, the run has this config and number of ranks. */
  begin(config: TrainConfig, world: number): void {
    const firstStep = this.#lastStep + 1;
    // A phase without steps leaves no trace.
    if (this.phase.firstStep === firstStep) this.#phases.pop();
    this.#phases.push({ firstStep, config, world });
  }

  /** The next step is number `step` + 1; records of later steps are no longer part of the run. */
  resume(step: number): void {
    const { config, world } = this.phase;
    this.steps.cut(step);
    this.#cutLosses(step);
    this.#phases.splice(0, this.#phases.length, ...this.#phases.filter(({ firstStep }) => firstStep <= step));
    this.#lastStep = step;
    const last = this.#phases.at(-1);
    if (last?.config !== config || last.world !== world)
      this.#phases.push({ firstStep: step + 1, config, world });
  }

  /** Stores one step of all ranks. */
  keep(steps: readonly RankStep[]): StepResult {
    const [first] = steps;
    if (first === undefined) throw new ShardlabError('INTERNAL', 'a step came back without results');
    const { result } = first;
    const records = steps.map(({ record }) => record);
    this.#lastStep = result.step;
    this.#losses.push(result.step);
    this.#losses.push(result.loss);
    this.steps.add({ result, records });
    this.steps.change(NUM_CURVES, withoutCurve);
    return result;
  }

  #cutLosses(step: number): void {
    const kept = this.#losses.toArray().filter((_, i, all) => (all[i - (i % 2)] ?? 0) <= step);
    this.#losses.clear();
    for (const value of kept) this.#losses.push(value);
  }
}

function withoutCurve(record: StepRecord): StepRecord {
  return record.memory.curve === null ? record : { ...record, memory: { ...record.memory, curve: null } };
}

function placed(phase: RunPhase | undefined): RunPhase {
  if (phase !== undefined) return phase;
  throw new ShardlabError('INTERNAL', 'a run has no config');
}
