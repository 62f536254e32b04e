import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ShardlabError } from '../../src/core/errors';
import type { Job } from '../../src/session/run/job';
import type { Run } from '../../src/session/run/run';
import { goneAfter, HANG_MS, temporaryFolder, withTmpdir } from '../session/job-fixture';
import { descendantsOf, GPT, launchTorch } from './torch-fixture';

const CONFIG = { model: GPT, parallel: { strategy: 'FULL_SHARD' } } as const;

const pause = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Begins steps that do not end by themselves, and waits for the first. `ended` resolves to their error. */
async function beginSteps(run: Run): Promise<{ readonly ended: Promise<ShardlabError> }> {
  const before = run.lastStep;
  const ended = run.step(100_000).then(
    () => assert.fail('the steps ended'),
    (error: unknown) => {
      assert.ok(error instanceof ShardlabError, String(error));
      return error;
    },
  );
  ended.catch(() => undefined); // the test that awaits it reports its failure
  while (run.lastStep === before) await pause(20);
  return { ended };
}

/** Shuts down, and checks that the processes that a job had have ended. */
async function endJob(job: Job, processes: readonly number[], context: TestContext): Promise<void> {
  // torchrun's agent and two ranks.
  assert.ok(processes.length >= 3 && job.ranks.every(({ pid }) => processes.includes(pid)));
  await job.shutdown();
  const milliseconds = await goneAfter(processes);
  context.diagnostic(
    `${processes.length} processes are gone ${milliseconds?.toFixed(0)} ms after the shutdown`,
  );
  assert.notEqual(milliseconds, undefined, 'processes were left behind');
}

/** Returns the ranks among processes, also those that do not run their program yet. */
function ranksAmong(processes: readonly number[]): number[] {
  return processes.filter((pid) => {
    try {
      return / -m shardlab_torch $/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '));
    } catch {
      return false; // it has ended
    }
  });
}

/** Returns torchrun's agent among processes. */
function agentOf(processes: readonly number[]): number {
  const isAgent = (pid: number): boolean =>
    readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('shardlab_torch.agent');
  return processes.find(isAgent) ?? assert.fail('there is no agent');
}

test('the death of a rank within a step is an error that names it, and no process is left', async (context) => {
  const job = await launchTorch(context, { ranks: 2 });
  await job.on('all').python("import subprocess\nchild = subprocess.Popen(['sleep', '600'])");
  const { ended } = await beginSteps(await job.train(CONFIG));
  const processes = descendantsOf(process.pid);
  const written: string[] = [];
  const mocked = context.mock.method(process.stderr, 'write', (text: string) => written.push(text) > 0);
  context.after(() => mocked.mock.restore());
  process.kill(job.ranks[1]?.pid ?? 0, 'SIGKILL');
  const killed = performance.now();
  const error = await ended;
  context.diagnostic(`reported after ${(performance.now() - killed).toFixed(0)} ms`);
  assert.equal(error.code, 'RANK_DIED', error.message);
  assert.match(
    error.message,
    /^rank 1's process ended \(SIGKILL\) while run\.step ran.*await job\.shutdown\(\)/,
  );
  assert.doesNotMatch(error.message, /last words/);
  assert.doesNotMatch(written.join(''), /Traceback|exitcode/);
  await assert.rejects(job.on(0).python('1'), { code: 'RANK_DIED' });
  await endJob(job, processes, context);
});

test('the error of a launch names the rank that ended, not the ranks that its agent then ended', async (context) => {
  const { path, left } = temporaryFolder(context);
  const launching = withTmpdir(path, () => launchTorch(context, { ranks: 2 }));
  launching.catch(() => undefined); // it is awaited below
  let ranks: readonly number[] = [];
  while (ranks.length < 2) {
    await pause(5);
    ranks = ranksAmong(descendantsOf(process.pid));
  }
  process.kill(Math.max(...ranks), 'SIGQUIT'); // the agent starts ranks in their order
  await assert.rejects(launching, {
    code: 'LAUNCH',
    message: /^rank 1 ended \(SIGQUIT\) before it was ready/,
  });
  assert.notEqual(await goneAfter(ranks), undefined);
  assert.deepEqual(left(), []);
});

test("SIGINT ends torchrun's agent at once, and the error says so", async (context) => {
  const job = await launchTorch(context, { ranks: 2 });
  const { ended } = await beginSteps(await job.train(CONFIG));
  const processes = descendantsOf(process.pid);
  const start = performance.now();
  process.kill(agentOf(processes), 'SIGINT');
  const error = await ended;
  assert.ok(
    performance.now() - start < 20_000,
    'torchrun waits 30 s before it kills ranks that SIGINT has not ended',
  );
  assert.match(error.message, /^rank [01]'s process ended \(SIGINT ended the program that started it\)/);
  await endJob(job, processes, context);
});

test("the death of torchrun's agent within a step is an error, and no process or file is left", async (context) => {
  const folder = temporaryFolder(context);
  const { TMPDIR } = process.env;
  process.env.TMPDIR = folder.path;
  context.after(() => {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
  });
  const job = await launchTorch(context, { ranks: 2 });
  const { ended } = await beginSteps(await job.train(CONFIG));
  const processes = descendantsOf(process.pid);
  process.kill(agentOf(processes), 'SIGKILL');
  const error = await ended;
  assert.equal(error.code, 'RANK_DIED', error.message);
  assert.match(error.message, /^rank [01]'s process ended \(SIGKILL ended the program that started it\)/);
  await endJob(job, processes, context);
  await assert.rejects(job.train(CONFIG), { code: 'CLOSED' });
  assert.deepEqual(folder.left(), []);
});

test('a checkpoint that cannot be written leaves no file, and the run continues as if it had not been saved', async (context) => {
  const { path } = temporaryFolder(context);
  const job = await launchTorch(context, { ranks: 2 });
  const [run, twin] = [await job.train(CONFIG), await job.train(CONFIG)];
  await run.step(1);
  const limit = (bytes: string): Promise<unknown> =>
    job.on(0).python(`import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (${bytes}, r.RLIM_INFINITY))`);
  await limit('1000');
  await assert.rejects(run.save(join(path, 'full')), {
    code: 'IO',
    message: /the checkpoint cannot be written: .*full.*; make room there, or save to another folder/,
  });
  await limit('r.RLIM_INFINITY');
  await assert.rejects(run.save('/proc/nowhere/saved'), {
    code: 'IO',
    message: /cannot be written: .*nowhere/,
  });
  assert.deepEqual(readdirSync(path), []);
  await run.step(2);
  await twin.step(3);
  assert.deepEqual(run.losses, twin.losses);
  await run.save(join(path, 'saved'));
  assert.deepEqual(readdirSync(path), ['saved']);
});

test('a rank that stands still is named, and the job continues when it does', async (context) => {
  const job = await launchTorch(context, { ranks: 2 });
  const run = await job.train(CONFIG);
  const { ended } = await beginSteps(run);
  const { pid = 0 } = job.ranks[1] ?? {};
  process.kill(pid, 'SIGSTOP');
  await pause(1000);
  const why = await job.why();
  assert.match(why.text, /^rank 0 waits in \w+ .* for rank 1, which is stopped/);
  assert.deepEqual(why.waits[0]?.waitsFor, [1]);
  process.kill(pid, 'SIGCONT');
  await job.interrupt();
  assert.match((await ended).message, /the run is intact/);
  const { lastStep } = run;
  await run.step(2);
  assert.equal(run.lastStep, lastStep + 2);

  await context.test('an interrupt ends a rank that does not continue', async () => {
    const again = await beginSteps(run);
    const processes = descendantsOf(process.pid);
    process.kill(pid, 'SIGSTOP');
    await pause(1000);
    await job.interrupt();
    const error = await again.ended;
    assert.match(error.message, /rank 1, which is stopped/);
    await assert.rejects(job.on(0).python('1'), { code: 'RANK_DIED', message: /rank 1's process ended/ });
    await endJob(job, processes, context);
  });
});

test('an interrupt ends steps, a loop and a collective, and the job continues', async (context) => {
  const job = await launchTorch(context, { ranks: 2 });
  const [run, twin] = [await job.train(CONFIG), await job.train(CONFIG)];
  const { ended } = await beginSteps(run);
  await job.interrupt();
  assert.match((await ended).message, /the run is intact/);
  const sources = ['while True: pass', 'if rank == 0: dist.barrier()\nimport time; time.sleep(600)'];
  for (const source of sources) {
    const cell = job.on('all').python(source);
    cell.catch(() => undefined); // it is awaited below
    await pause(500);
    const start = performance.now();
    await job.interrupt();
    await assert.rejects(cell, { code: 'INTERRUPTED' });
    const milliseconds = performance.now() - start;
    context.diagnostic(`ranks work again ${milliseconds.toFixed(0)} ms after the interrupt`);
    assert.ok(milliseconds < HANG_MS);
  }
  await run.step(1);
  await twin.step(run.lastStep);
  const processes = descendantsOf(process.pid);
  assert.deepEqual(run.losses, twin.losses);
  await endJob(job, processes, context);
});

test("torchrun's agent and a rank that SIGSTOP has stopped end when the launcher is killed", async (context) => {
  const env = { ...process.env, TMPDIR: temporaryFolder(context).path };
  const launcher = fork(join(__dirname, 'torch-launcher.js'), ['train'], { silent: true, env });
  context.after(() => launcher.kill('SIGKILL'));
  await new Promise((resolve, reject) => {
    launcher.once('message', resolve);
    launcher.once('exit', (code) => reject(new Error(`the launcher ended by itself with status ${code}`)));
  });
  const processes = descendantsOf(launcher.pid ?? 0);
  const [rank = 0] = ranksAmong(processes);
  for (const pid of [agentOf(processes), rank]) process.kill(pid, 'SIGSTOP');
  launcher.kill('SIGKILL');
  // The agent waits 30 s before it kills a rank that does not react to SIGTERM.
  assert.notEqual(await goneAfter(processes, 2 * HANG_MS), undefined, 'processes were left behind');
});

for (const occupation of ['train', "import subprocess; subprocess.run(['sleep', '600'])"]) {
  test(`all processes end when the launcher is killed: ${occupation}`, async (context) => {
    const folder = temporaryFolder(context);
    const env = { ...process.env, TMPDIR: folder.path };
    const launcher = fork(join(__dirname, 'torch-launcher.js'), [occupation], { silent: true, env });
    context.after(() => launcher.kill('SIGKILL'));
    await new Promise((resolve, reject) => {
      launcher.once('message', resolve);
      launcher.once('exit', (code) => reject(new Error(`the launcher ended by itself with status ${code}`)));
    });
    const processes = descendantsOf(launcher.pid ?? 0);
    // torchrun's agent, two ranks, and what these have started.
    assert.ok(processes.length >= 3, `${processes}`);
    launcher.kill('SIGKILL');
    const milliseconds = await goneAfter(processes);
    context.diagnostic(`${processes.length} processes are gone after ${milliseconds?.toFixed(0)} ms`);
    assert.notEqual(milliseconds, undefined, 'processes were left behind');
    assert.deepEqual(folder.left(), []);
  });
}
