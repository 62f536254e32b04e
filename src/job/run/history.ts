import type { TrainConfig } from '../../config/train-config';
import { ShardlabError } from '../../core/errors';
import { counted } from '../../figures/format';
import type { LossesByStep } from '../../figures/run-view';
import type { SpillFile } from '../../ledger/spill-file';
import type { StepResult } from '../../train/step-result';
import type { RankStep } from '../control/messages';
import { NUM_NEWEST, RunSteps } from './steps';

/** Number of newest steps whose allocations and frees are all stored; older records have only totals. */
const NUM_CURVES = 2;

/** The config and number of ranks of a run. */
export interface RunPlace {
  readonly config: TrainConfig;
  readonly world: number;
}

/** Consecutive steps of a run with the same config and number of ranks. */
export interface RunPhase extends RunPlace {
  /** The number of the phase's first step, from 1. */
  readonly firstStep: number;
}

/** The steps of a run so far. */
export class RunHistory {
  readonly steps: RunSteps;
  /** The phases in order; a run that was never resharded has one phase. */
  readonly phases: RunPhase[];
  /** Loss of each step by its number, in order. */
  readonly #losses = new Map<number, number>();
  #lastStep = 0;

  constructor(config: TrainConfig, world: number, file: SpillFile, warn: (message: string) => void) {
    this.steps = new RunSteps(file, warn);
    this.phases = [{ firstStep: 1, config, world }];
  }

  /** The newest phase. */
  get phase(): RunPhase {
    return placed(this.phases.at(-1));
  }

  /**
   * Returns the phase of a step, with the records of that step and of the phase's newest steps, and with the losses of all
   * steps of the phase. Throws: IO if records are lost.
   */
  stepsOf(step: number) {
    const found = this.phases.findLastIndex(({ firstStep }) => firstStep <= step);
    const at = Math.max(0, found);
    const phase = placed(this.phases[at]);
    const end = this.phases[at + 1]?.firstStep ?? Number.POSITIVE_INFINITY;
    const newest = this.steps.newest(NUM_NEWEST, end).filter((record) => record.step >= phase.firstStep);
    const isThere = newest.some((record) => record.step === step);
    const records = isThere ? newest : [...this.steps.ofStep(step), ...newest];
    return { ...phase, records, allLosses: () => this.lossesByStep(phase.firstStep, end) };
  }

  /** Number of the last step, from 1, including the steps before a loaded checkpoint; 0 before the first. */
  get lastStep(): number {
    return this.#lastStep;
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

  /** Begins a phase: from the next step on, the run has this config and number of ranks. */
  begin({ config, world }: RunPlace): void {
    const firstStep = this.#lastStep + 1;
    // A phase without steps leaves no trace.
    if (this.phase.firstStep === firstStep) this.phases.pop();
    this.phases.push({ firstStep, config, world });
  }

  /** Drops the records of steps after number `step`; the next step has number `step` + 1. */
  resume(step: number): void {
    const { config, world } = this.phase;
    this.steps.cut(step);
    for (const later of this.#losses.keys()) if (later > step) this.#losses.delete(later);
    this.phases.splice(0, this.phases.length, ...this.phases.filter(({ firstStep }) => firstStep <= step));
    this.#lastStep = step;
    const last = this.phases.at(-1);
    if (last?.config !== config || last.world !== world)
      this.phases.push({ firstStep: step + 1, config, world });
  }

  /** Stores one step of all ranks. */
  keep(steps: readonly RankStep[]): StepResult {
    const [first] = steps;
    if (first === undefined) throw new ShardlabError('INTERNAL', 'a step came back without results');
    const { result } = first;
    this.#lastStep = result.step;
    this.#losses.set(result.step, result.loss);
    this.steps.add({ result, records: steps.map(({ record }) => record) });
    this.steps.change(NUM_CURVES, (record) => ({ ...record, memory: { ...record.memory, curve: null } }));
    return result;
  }
}

/** Returns the strategy and number of ranks of a run: 'FULL_SHARD on 4 ranks'. */
export function placeText({
  config,
  world,
}: Pick<RunPlace, 'world'> & { readonly config: Pick<TrainConfig, 'parallel'> }): string {
  return `${config.parallel.strategy} on ${counted(world, 'rank')}`;
}

function placed(phase: RunPhase | undefined): RunPhase {
  if (phase !== undefined) return phase;
  throw new ShardlabError('INTERNAL', 'a run has no config');
}
