import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import type { ErrorJson } from '../../../src/core/errors';
import type { AbortReason } from '../../../src/wire/transport/control-block';
import type { JobLinks } from '../../../src/wire/transport/links';
import { createSegment, type Segment } from '../../../src/wire/transport/segment';
import { CODE_CACHE } from '../../support/rank-pool';
import type { RankReply, RankRequest, RankSetup, TestPlane } from './scenario';

const SEGMENT_FD = 3;

/** The time that ranks have to end a scenario after one of them has failed. */
const PATIENCE_MS = 10_000;

/** The answer of a rank: its value, or the error that it threw. */
export type Outcome = { readonly value: unknown } | { readonly error: ErrorJson };

/** Rank processes of a test, with the necessary part of a launcher. */
export class RankProcesses {
  readonly children: readonly ChildProcess[];
  private readonly segment: Segment | undefined;
  private readonly folder: string;
  private numResets = 0;

  private constructor(children: ChildProcess[], segment: Segment | undefined, folder: string) {
    this.children = children;
    this.segment = segment;
    this.folder = folder;
  }

  static async start(
    plane: TestPlane,
    world: number,
    { segmentBytes, link, nodes }: JobLinks & { readonly segmentBytes?: number } = {},
  ): Promise<RankProcesses> {
    const folder = mkdtempSync(join(tmpdir(), 'shardlab-test-'));
    const segment = plane === 'shared-memory' ? createSegment(segmentBytes) : undefined;
    const addresses = Array.from({ length: world }, (_, rank) => `ipc://${folder}/rank-${rank}`);
    const children = addresses.map((_, rank) => startRank({ rank, world, link, nodes }, segment, addresses));
    const ranks = new RankProcesses(children, segment, folder);
    await Promise.all(children.map((child) => nextReply(child)));
    return ranks;
  }

  /**
   * Runs one scenario on all ranks; the answer of a rank that dies is undefined. If a rank fails, the ranks that still wait for
   * it after a while are aborted, as a launcher would do, so that their test ends and reports the error.
   */
  async run(file: string, name: string): Promise<(Outcome | undefined)[]> {
    const failed = (outcome: Outcome | undefined): boolean => outcome !== undefined && 'error' in outcome;
    let giveUp: NodeJS.Timeout | undefined;
    const answers = await this.ask({ kind: 'scenario', file, name }, (outcome) => {
      if (!failed(outcome)) return;
      const text = `a rank failed in ${name}, and this rank waited for it`;
      giveUp ??= setTimeout(() => this.abort({ code: 'ABORTED', text }), PATIENCE_MS);
    });
    clearTimeout(giveUp);
    return answers;
  }

  private async ask(
    request: RankRequest,
    heard: (outcome: Outcome | undefined) => void = () => undefined,
  ): Promise<(Outcome | undefined)[]> {
    return Promise.all(
      this.children.map(async (child) => {
        const reply = nextReply(child);
        child.send(request);
        const outcome = await reply;
        heard(outcome);
        return outcome;
      }),
    );
  }

  /** As a launcher does when a rank has died. */
  abort(reason: AbortReason): void {
    this.segment?.abort(reason);
    this.order({ abort: reason });
  }

  /** Begins a new epoch, and waits until every rank's courier knows. */
  async reset(): Promise<void> {
    this.segment?.reset();
    this.order({ reset: true });
    this.numResets++;
    for (;;) {
      const epochs = await this.ask({ kind: 'epoch' });
      const known = epochs.every(
        (reply) => reply !== undefined && 'value' in reply && reply.value === this.numResets + 1,
      );
      if (known) return;
    }
  }

  async stop(): Promise<void> {
    const living = this.children.filter((child) => child.exitCode === null && child.signalCode === null);
    await Promise.all(
      living.map(async (child) => {
        const exited = once(child, 'exit');
        // The process cannot end while its courier stand-in still reads from this pipe.
        child.once('disconnect', () => endOrders(child));
        if (child.connected) child.send({ kind: 'close' } satisfies RankRequest);
        else endOrders(child);
        const stuck = setTimeout(() => child.kill('SIGKILL'), 3000);
        await exited;
        clearTimeout(stuck);
      }),
    );
    this.segment?.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private order(order: unknown): void {
    for (const child of this.children) ordersOf(child)?.write(`${JSON.stringify(order)}\n`);
  }
}

// Descriptor 4 was requested as a pipe.
const ordersOf = (child: ChildProcess): Writable | null => child.stdio[4] as Writable | null;
const endOrders = (child: ChildProcess): void => void ordersOf(child)?.end();

function startRank(
  { rank, world, link, nodes }: JobLinks & { readonly rank: number; readonly world: number },
  segment: Segment | undefined,
  addresses: readonly string[],
): ChildProcess {
  const plane =
    segment === undefined
      ? { kind: 'zeromq' as const, addresses, token: 'secret' }
      : { kind: 'shared-memory' as const, fd: SEGMENT_FD, bytes: segment.bytes };
  const shaped = { ...(link && { link }), ...(nodes && { nodes }) };
  const setup: RankSetup = world === 1 ? { rank, world } : { rank, world, plane, ...shaped };
  const program = ['--require', CODE_CACHE, join(__dirname, 'rank-entry.js')];
  const child = spawn(process.execPath, [...program, JSON.stringify(setup)], {
    stdio: ['ignore', 'inherit', 'inherit', segment?.fd ?? 'ignore', 'pipe', 'ipc'],
  });
  // A failed write of an order to a rank that just died does not fail the test.
  child.stdio[4]?.on('error', () => undefined);
  return child;
}

async function nextReply(child: ChildProcess): Promise<Outcome | undefined> {
  return new Promise((resolve) => {
    const settle = (outcome: Outcome | undefined): void => {
      child.off('message', heard);
      child.off('exit', died);
      resolve(outcome);
    };
    // Ranks send only replies.
    const heard = (message: unknown): void => settle(asOutcome(message as RankReply));
    const died = (): void => settle(undefined);
    child.once('message', heard);
    child.once('exit', died);
  });
}

function asOutcome(reply: RankReply): Outcome {
  if (reply.kind === 'error') return { error: reply.error };
  return { value: reply.kind === 'value' ? reply.value : undefined };
}

/** Returns the ranks' values; fails if a rank died or threw. */
export function valuesOf(outcomes: readonly (Outcome | undefined)[]): unknown[] {
  return outcomes.map((outcome, rank) => {
    assert.ok(outcome !== undefined, `rank ${rank} died`);
    if ('error' in outcome) assert.fail(`rank ${rank}: ${outcome.error.message}`);
    return outcome.value;
  });
}
