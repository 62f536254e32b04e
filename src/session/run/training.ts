import { Progress, withProgress } from '../../cell';
import { placeText } from '../../config';
import { now, ShardlabError } from '../../core';
import { type ComparedReplicas, FoldedLines, type RankStep, type StepGrant } from '../../launch';
import type { Redistributed } from '../../training';
import type { WalkSink } from '../walk/walk';
import type { RunParts } from './calls';
import type { RunPlace } from './history';
import { isOverMemoryLimit, withMemoryAdvice } from './memory-advice';
import { createReshardReport, type ReshardReport } from './reshard';

/** Runs steps and reshards of a run, and adds advice to errors about memory. */
export class RunTraining {
  readonly #parts: RunParts;
  #steps: Stepping | undefined;

  constructor(parts: RunParts) {
    this.#parts = parts;
  }

  /**
   * Runs steps; after each step, `done` gets the ranks' reports. With `walk`, the ranks halt before each point. Returns after fewer steps if `stop` was called. Throws:
   * INTERRUPTED if `stop` was called before the first step, OUT_OF_MEMORY with advice, and errors of ranks.
   */
  async step(numSteps: number, done: (ranks: readonly RankStep[]) => void, walk?: WalkSink): Promise<void> {
    const { number: run, supervisor, calls, history, made, torch } = this.#parts;
    const { world } = history.phase;
    const lines = new FoldedLines();
    const steps = new Stepping(
      { numSteps, numRanks: world },
      (grant) => supervisor.grant(grant),
      (ranks) => {
        lines.flush(world);
        done(ranks);
      },
    );
    this.#steps = steps;
    try {
      const [last] = history.steps.results(history.steps.numSteps - 1);
      const comparesReplicas = history.replicas.isDue(numSteps * (last?.seconds ?? 0));
      const grant = firstGrant(numSteps);
      const walks = walk !== undefined;
      const records = made.isWanted && torch === undefined ? { records: true } : {};
      const work = { kind: 'steps', run, numSteps, grant, comparesReplicas, walks, ...records } as const;
      const sink = {
        begins: () => steps.begin(),
        step: (rank: number, step: RankStep) => steps.receive(rank, step),
        ...walk,
      };
      const start = now();
      const compared = await calls.on<ComparedReplicas | undefined>(world, work, sink, lines);
      history.replicas.compare(history.lastStep, now() - start, compared);
      made.byRank = compared.map((one) => one?.made ?? []);
    } catch (error) {
      // After a failure within a step, ranks may have different parameters.
      calls.breakOff(`within step ${history.lastStep + 1}`, error);
      throw await this.advised(error);
    } finally {
      this.#steps = undefined;
    }
  }

  /** Makes `step` end after the running training step. Returns false if `step` is still waiting for its ranks. */
  stop(): boolean {
    return this.#steps?.stop() ?? true;
  }

  /** Moves a run's states to another config or world. Throws: CHECK, errors of ranks; an error during the move ends the run. */
  async reshard(from: RunPlace, to: RunPlace): Promise<ReshardReport> {
    const { number: run, groups, calls, history, data, own, copySteps, torch } = this.#parts;
    const start = now();
    const [before, after] = [await groups.of(from.world), await groups.of(to.world)];
    const line = new Progress(`${placeText(from)} → ${placeText(to)}`, 'rounds moved');
    let isMoving = false;
    try {
      const work = {
        kind: 'reshard',
        run,
        config: to.config,
        data,
        own: own?.sources,
        before,
        after,
        copySteps,
        torch: torch?.modelOf(to.config),
      } as const;
      const ranks = await calls.on<Redistributed>(Math.max(from.world, to.world), work, {
        begins: () => torch?.begin(to.config, to.world, data),
        progress: (_, { done, total }) => {
          isMoving = true;
          line.show(done, total);
        },
      });
      history.begin(to);
      const report = createReshardReport(from, to, ranks, now() - start);
      line.finish(String(report));
      return report;
    } catch (error) {
      line.end();
      if (isMoving) calls.breakOff(`while it was resharded after step ${history.lastStep}`, error);
      throw error;
    }
  }

  /** Returns an error about a memoryLimit with settings that fit, and frees the model; returns other errors unchanged. */
  async advised(error: unknown): Promise<unknown> {
    if (!isOverMemoryLimit(error)) return error;
    const { groups, calls, history } = this.#parts;
    const { config, world } = history.phase;
    await calls.free(world).catch(() => undefined);
    const group = await groups.of(world);
    return withProgress('out of memory: trying settings that fit', 'settings', (progress) =>
      withMemoryAdvice(error, {
        config,
        world,
        probe: (tried) => calls.probe(tried, this.#parts, group),
        progress,
      }),
    );
  }
}

/*
 * [Note: grants] The launcher grants all ranks the same number of steps, and ranks run granted steps without waiting
 * for the launcher. To stop, the launcher grants no more steps: every rank then ends after the same step, so the model
 * is consistent. The launcher grants one step beyond the running one, so that no rank waits for a message between two
 * steps.
 */

/** Number of granted steps beyond the steps that all ranks have done. */
const LEAD = 2;

/** Returns the grant with which a call of `numSteps` steps begins. */
export function firstGrant(numSteps: number): StepGrant {
  return { granted: Math.min(LEAD, numSteps), isFinal: numSteps <= LEAD };
}

/** Gathers the ranks' reports of their steps, and grants further steps. */
export class Stepping {
  readonly #numSteps: number;
  readonly #grant: (grant: StepGrant) => void;
  readonly #done: (steps: readonly RankStep[]) => void;
  /** For each rank, the steps that this rank has reported and at least one other rank has not reported. */
  readonly #waiting: RankStep[][];
  /** Number of steps that all ranks have done. */
  numDone = 0;
  #granted: StepGrant;
  #hasBegun = false;
  #isStopped = false;

  constructor(
    { numSteps, numRanks }: { readonly numSteps: number; readonly numRanks: number },
    grant: (grant: StepGrant) => void,
    done: (steps: readonly RankStep[]) => void,
  ) {
    this.#numSteps = numSteps;
    this.#grant = grant;
    this.#done = done;
    this.#waiting = Array.from({ length: numRanks }, () => []);
    this.#granted = firstGrant(numSteps);
  }

  /** Must be called when the ranks are free, just before they get the steps. Throws: INTERRUPTED if `stop` was called before. */
  begin(): void {
    if (this.#isStopped) {
      throw new ShardlabError(
        'INTERRUPTED',
        'run.step was interrupted before its first step; the run is intact',
      );
    }
    this.#hasBegun = true;
  }

  /** Receives the report of a rank's next step. */
  receive(rank: number, step: RankStep): void {
    this.#waiting[rank]?.push(step);
    while (this.#waiting.every((steps) => steps.length > 0)) {
      const steps = this.#waiting.flatMap((queue) => queue.shift() ?? []);
      this.numDone++;
      this.#goOn();
      this.#done(steps);
    }
  }

  /**
   * Lets ranks end after the granted steps. Returns false if the ranks have not got the steps yet; then the ranks never
   * get them.
   */
  stop(): boolean {
    this.#isStopped = true;
    if (!this.#hasBegun) return false;
    if (this.#granted.isFinal) return true;
    this.#granted = { ...this.#granted, isFinal: true };
    this.#grant(this.#granted);
    return true;
  }

  #goOn(): void {
    if (this.#granted.isFinal) return;
    const granted = Math.min(this.numDone + LEAD, this.#numSteps);
    this.#granted = { granted, isFinal: granted === this.#numSteps };
    this.#grant(this.#granted);
  }
}
