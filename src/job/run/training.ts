import { currentDisplay } from '../../cell/display';
import type { Redistributed } from '../../checkpoint/reshard/redistribute';
import { ShardlabError } from '../../core/errors';
import { now } from '../../core/units';
import type { RankGroups } from '../launch/groups';
import type { Supervisor } from '../launch/supervisor';
import type { RunCalls } from './calls';
import type { RunHistory } from './history';
import { isOverMemoryLimit, withMemoryAdvice } from './memory-advice';
import { createProgress } from './progress';
import { createProgressLine } from './progress-line';
import type { ReshardPlan } from './reshard-change';
import { createReshardReport, type ReshardReport } from './reshard-report';
import { firstGrant, Stepping } from './stepping';
import { createRunSummary, type RunSummary } from './summary';
import { placeText } from './text';

/** What training needs of its run. */
export interface RunTrainingParts {
  /** Number of the run in its job. */
  readonly number: number;
  readonly supervisor: Supervisor;
  readonly groups: RankGroups;
  readonly calls: RunCalls;
  readonly history: RunHistory;
}

/** Steps a run's ranks and moves them to other strategies, with progress and advice for the person; one thing at a time. */
export class RunTraining {
  readonly #parts: RunTrainingParts;
  #steps: Stepping | undefined;

  constructor(parts: RunTrainingParts) {
    this.#parts = parts;
  }

  /** Throws: INTERRUPTED after `stop`, OUT_OF_MEMORY with advice, and what ranks throw. */
  async step(numSteps: number): Promise<RunSummary> {
    const { number: run, supervisor, calls, history } = this.#parts;
    const { world } = history.phase;
    const first = history.steps.numSteps;
    const progress = createProgress(currentDisplay(), numSteps);
    const steps = new Stepping(
      { numSteps, numRanks: world },
      (grant) => supervisor.grant(grant),
      (done) => {
        progress.show(history.keep(done));
      },
    );
    this.#steps = steps;
    try {
      const work = { kind: 'steps', run, numSteps, grant: firstGrant(numSteps) } as const;
      await calls.on(world, work, { step: (rank, step) => steps.receive(rank, step) });
    } catch (error) {
      // After a failure within a step, ranks may have different parameters.
      calls.breakOff(`within step ${history.lastStep + 1}`, error);
      throw await this.advised(error);
    } finally {
      this.#steps = undefined;
      progress.finish();
    }
    if (steps.numDone < numSteps) {
      throw new ShardlabError(
        'INTERRUPTED',
        `run.step was interrupted after ${steps.numDone} of ${numSteps} steps; the run is intact: step() continues from step ${history.lastStep}`,
      );
    }
    return createRunSummary(history.steps.results(first));
  }

  /** Ends `step` after the running one. */
  stop(): void {
    this.#steps?.stop();
  }

  /** Throws: CHECK, and what ranks throw; once states were moving, that ends the run. */
  async reshard(from: ReshardPlan, to: ReshardPlan): Promise<ReshardReport> {
    const { number: run, groups, calls, history } = this.#parts;
    const start = now();
    const [before, after] = [await groups.of(from.world), await groups.of(to.world)];
    const line = createProgressLine(currentDisplay());
    const head = `${placeText(from)} → ${placeText(to)}`;
    let isMoving = false;
    try {
      const work = { kind: 'reshard', run, config: to.config, before, after } as const;
      const ranks = await calls.on<Redistributed>(Math.max(from.world, to.world), work, {
        progress: (_, { done, total }) => {
          isMoving = true;
          line.show(`${head}: ${Math.round((100 * done) / total)}% moved`, done, total);
        },
      });
      history.begin(to.config, to.world);
      const report = createReshardReport(from, to, ranks, now() - start);
      line.finish(String(report));
      return report;
    } catch (error) {
      if (isMoving) calls.breakOff(`while it was resharded after step ${history.lastStep}`, error);
      throw error;
    }
  }

  /** An error over a memoryLimit with the settings that would have fit; others as they are. The model that did not fit goes first. */
  async advised(error: unknown): Promise<unknown> {
    if (!isOverMemoryLimit(error)) return error;
    const { number, groups, calls, history } = this.#parts;
    const { config, world } = history.phase;
    await calls.free(world, number);
    const line = createProgressLine(currentDisplay());
    const group = await groups.of(world);
    const advised = await withMemoryAdvice(error, {
      config,
      world,
      probe: (tried) => calls.probe(tried, number, group),
      progress: (text, done, total) => line.show(text, done, total),
    });
    line.finish('out of memory: see what fits below');
    return advised;
  }
}
