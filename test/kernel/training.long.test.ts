import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { casesHere } from '../support/cases';
import { type Exchange, JupyterClient, KERNEL_MAIN, resultText } from './jupyter-client';
import { family, goneIn, NO_PROC } from './processes';

const TRAIN =
  "const run = await job.train({ model: { kind: 'gpt', layers: 1, dim: 8, heads: 1, vocab: 32, seq: 4 }, data: 'synthetic', parallel: { strategy: 'FULL_SHARD' } });";
const STEP = "console.log('training'); await run.step(100_000);";

/** Launches a job in the kernel and returns its ranks' processes. */
async function launchIn(client: JupyterClient, name: string): Promise<number[]> {
  const code = `import * as sl from 'shardlab';\nconst ${name} = await sl.launch({ ranks: 2 });\n${name}.ranks.map((r) => r.pid).join()`;
  const { reply, published } = await client.execute(code);
  assert.equal(reply.content.status, 'ok', JSON.stringify(reply.content));
  return String(resultText({ reply, published })).replaceAll("'", '').split(',').map(Number);
}

/** A kernel that ends with the test, also if the test fails. */
async function startKernel(context: TestContext): Promise<JupyterClient> {
  const client = await JupyterClient.start();
  context.after(() => client.process.kill('SIGKILL'));
  return client;
}

/** Starts a training that does not end by itself; resolves when the first step is shown. */
async function startTraining(client: JupyterClient): Promise<{ readonly ended: Promise<Exchange> }> {
  assert.equal((await client.execute(TRAIN)).reply.content.status, 'ok');
  const shown = client.until(({ header }) => header.msg_type === 'display_data');
  const ended = client.execute(STEP);
  await shown;
  return { ended };
}

describe('a notebook that trains', { skip: NO_PROC }, () => {
  const ways: Readonly<Record<string, (client: JupyterClient) => void>> = {
    'its kernel is killed with -9': ({ pid }) => process.kill(pid, 'SIGKILL'),
    'its kernel is ended by SIGTERM': ({ pid }) => process.kill(pid, 'SIGTERM'),
    'it is restarted': (client) => void client.request('shutdown_request', { restart: true }, 'control'),
    'it is shut down': (client) => void client.request('shutdown_request', { restart: false }, 'control'),
  };
  // The test below shuts one notebook down and restarts another one.
  const here = casesHere(ways, ['its kernel is killed with -9']);
  for (const [what, act] of Object.entries(here)) {
    it(`leaves no kernel and no ranks behind when ${what}`, async (context) => {
      const client = await startKernel(context);
      const ranks = await launchIn(client, 'job');
      await startTraining(client);
      const kernel = family(client.pid);
      act(client);
      await goneIn([...ranks, ...kernel]);
      client.close();
    });
  }

  it('shares the machine with another notebook and with a second job of its own', async (context) => {
    const one = await startKernel(context);
    const other = await startKernel(context);
    const clients = [one, other];
    const ranks: number[] = [];
    ranks.push(...(await launchIn(one, 'job')));
    for (const name of ['first', 'job']) ranks.push(...(await launchIn(other, name)));
    assert.equal(new Set(ranks).size, 6);
    const sums = await Promise.all(
      clients.map(async (client, i) => {
        const jobs = client === one ? ['job'] : ['first', 'job'];
        const all = `const f = (r: sl.RankScope, x: number) => { const t = r.tf.fill([2], x + r.rank); r.dist.allReduce(t); return t.arraySync(); };
JSON.stringify(await Promise.all([${jobs.map((name, j) => `${name}.on('all').run(f, ${10 * i + 20 * j})`)}]))`;
        return String(resultText(await client.execute(all)));
      }),
    );
    assert.deepEqual(sums, ["'[[[1,1],[1,1]]]'", "'[[[21,21],[21,21]],[[61,61],[61,61]]]'"]);
    const [, { ended }] = await Promise.all([startTraining(one), startTraining(other)]);
    await one.stop();
    await goneIn(ranks.slice(0, 2));
    await other.request('interrupt_request', {}, 'control');
    assert.equal((await ended).reply.content.ename, 'ShardlabError[INTERRUPTED]');
    assert.equal(resultText(await other.execute('run.losses.length > 0')), 'true');
    void other.execute(STEP);
    await other.until(({ header }) => header.msg_type === 'display_data');
    const kernel = family(other.pid);
    void other.request('shutdown_request', { restart: true }, 'control');
    await goneIn([...ranks, ...kernel]);
    other.close();
  });
});

describe('a connection file whose port is in use', () => {
  it('ends the kernel at once with the address in its message, and leaves no process', {
    timeout: 120_000,
  }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'shardlab-kernel-'));
    const blocker = createServer().listen(0, '127.0.0.1');
    await once(blocker, 'listening');
    // The server listens on TCP, so its address is not a pipe's name.
    const { port } = blocker.address() as AddressInfo;
    const file = join(folder, 'connection.json');
    const ports = { shell_port: port, iopub_port: 0, stdin_port: 0, control_port: 0, hb_port: 0 };
    const rest = { transport: 'tcp', ip: '127.0.0.1', key: 'k', signature_scheme: 'hmac-sha256' };
    writeFileSync(file, JSON.stringify({ ...ports, ...rest }));
    const kernel = spawn(process.execPath, [KERNEL_MAIN, file], { stdio: ['ignore', 'ignore', 'pipe'] });
    const { code, said } = await endOf(kernel);
    assert.equal(code, 1);
    assert.match(
      said,
      new RegExp(`^shardlab kernel: cannot bind shell to tcp://127\\.0\\.0\\.1:${port}: .*in use`, 'm'),
    );
    blocker.close();
    rmSync(folder, { recursive: true });
  });
});

/** Resolves when the process and all others that hold its standard error have ended. */
async function endOf(child: ChildProcess): Promise<{ readonly code: number; readonly said: string }> {
  let said = '';
  child.stderr?.on('data', (text) => {
    said += text;
  });
  const [code] = await once(child, 'close');
  return { code, said };
}
