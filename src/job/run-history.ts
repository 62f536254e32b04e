import type { TrainConfig } from '../config/train-config';
import { ShardlabError } from '../core/errors';
import type { StepRecord } from '../ledger/record';
import type { StepResult } from '../train/step-result';
import type { RankStep } from './messages';

/** Steps of which every allocation and free is kept, from the newest back; older records keep their totals. */
const NUM_CURVES = 2;

/** Steps that were made with one config on one number of ranks. */
export interface RunPhase {
  /** The number of its first step, from 1. */
  readonly firstStep: number;
  readonly config: TrainConfig;
  readonly world: number;
}

/** What a run has done so far. */
export class RunHistory {
  /** What each step came to. */
  readonly results: StepResult[] = [];
  /** The ledgers of all ranks, step by step, rank by rank. */
  readonly records: StepRecord[] = [];
  readonly #phases: RunPhase[];
  #lastStep = 0;

  constructor(config: TrainConfig, world: number) {
    this.#phases = [{ firstStep: 1, config, world }];
  }

  /** The newest one. */
  get phase(): RunPhase {
    return placed(this.#phases.at(-1));
  }

  /** All of them; a run that was never resharded has one. */
  get phases(): readonly RunPhase[] {
    return this.#phases;
  }

  /** The phase of a step with the records of its steps. */
  stepsOf(step: number): RunPhase & { readonly records: readonly StepRecord[] } {
    const at = Math.max(
      0,
      this.#phases.findLastIndex(({ firstStep }) => firstStep <= step),
    );
    const phase = placed(this.#phases[at]);
    const end = this.#phases[at + 1]?.firstStep ?? Number.POSITIVE_INFINITY;
    const records = this.records.filter((record) => record.step >= phase.firstStep && record.step < end);
    return { ...phase, records };
  }

  /** Number of the last step, from 1, whether made here or before a checkpoint that was loaded; 0 before the first. */
  get lastStep(): number {
    return this.#lastStep;
  }

  /** From the next step on, another config or another number of ranks. */
  begin(config: TrainConfig, world: number): void {
    const firstStep = this.#lastStep + 1;
    // A phase in which no step was made leaves no trace.
    if (this.phase.firstStep === firstStep) this.#phases.pop();
    this.#phases.push({ firstStep, config, world });
  }

  /** The next step is number `step` + 1: what was recorded of later ones is no longer part of the run. */
  resume(step: number): void {
    const { config, world } = this.phase;
    const isPast = ({ step: other }: { readonly step: number }): boolean => other <= step;
    this.results.splice(0, this.results.length, ...this.results.filter(isPast));
    this.records.splice(0, this.records.length, ...this.records.filter(isPast));
    this.#phases.splice(0, this.#phases.length, ...this.#phases.filter(({ firstStep }) => firstStep <= step));
    this.#lastStep = step;
    const last = this.#phases.at(-1);
    if (last?.config !== config || last.world !== world)
      this.#phases.push({ firstStep: step + 1, config, world });
  }

  /** Keeps one step of all ranks. */
  keep(steps: readonly RankStep[]): StepResult {
    const [first] = steps;
    if (first === undefined) throw new ShardlabError('INTERNAL', 'a step came back without results');
    this.results.push(first.result);
    this.#lastStep = first.result.step;
    this.records.push(...steps.map(({ record }) => record));
    this.#dropCurves(first.result.step - NUM_CURVES);
    return first.result;
  }

  /** Long runs keep totals of every step, but not every allocation of every step. */
  #dropCurves(step: number): void {
    for (let i = this.records.length - 1; i >= 0; i--) {
      const record = this.records[i];
      if (record === undefined || record.step < step) return;
      if (record.step === step && record.memory.curve !== null) {
        this.records[i] = { ...record, memory: { ...record.memory, curve: null } };
      }
    }
  }
}

function placed(phase: RunPhase | undefined): RunPhase {
  if (phase !== undefined) return phase;
  throw new ShardlabError('INTERNAL', 'a run has no config');
}
