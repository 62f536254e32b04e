import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { contents, type Exchange, JupyterClient, resultText } from './jupyter-client';
import { commandOf, compilerOf, family, NO_PROC } from './processes';

/** A test whose interrupt has no effect would wait for ever. */
const LIMITS = { skip: NO_PROC, timeout: 120_000 };

const STUBBORN = 'trap "" INT; sleep 600';

let client: JupyterClient;
let executor: number;

before(async () => {
  client = await JupyterClient.start();
  await client.execute(
    "import { execSync } from 'node:child_process'; import { readFileSync } from 'node:fs';",
  );
});

after(() => client.stop());

/** Starts a cell; resolves once its process is in the call that follows the cell's first output. */
async function started(code: string): Promise<{ ended: Promise<Exchange> }> {
  executor = Number(resultText(await client.execute('process.pid')));
  const ended = client.execute(`process.stderr.write('begun\\n'); ${code}`);
  await client.until(({ content }) => String(content.text).includes('begun'));
  return { ended };
}

async function interrupt(): Promise<void> {
  await client.request('interrupt_request', {}, 'control');
}

/** Interrupts the cell; resolves with the line that says why it has not stopped. */
async function line(): Promise<string> {
  const said = client.until(({ content }) => String(content.text).includes('has not stopped'));
  await interrupt();
  return String((await said).content.text);
}

/** Resolves when the process that a cell waits for has started. */
async function sleeps(pid: number): Promise<void> {
  while (!family(pid).some((one) => commandOf(one) === 'sleep 600 ')) await delay(20);
}

describe('an interrupt of a cell in a native call', { skip: NO_PROC }, () => {
  it('ends the processes that the cell waits for, and so ends the cell; variables stay', LIMITS, async () => {
    await client.execute('let kept = 1;');
    const { ended } = await started("execSync('sleep 600; true')");
    await sleeps(executor);
    await interrupt();
    assert.equal((await ended).reply.content.ename, 'ShardlabError[INTERRUPTED]');
    assert.equal(resultText(await client.execute('kept')), '1');
  });

  it('waits for a process that ends by itself, then ends the cell; variables stay', LIMITS, async () => {
    await client.execute('let whole = 1;');
    const { ended } = await started('execSync(\'trap "" INT; sleep 3\'); while (true) {}');
    await interrupt();
    assert.equal((await ended).reply.content.ename, 'ShardlabError[INTERRUPTED]');
    assert.equal(resultText(await client.execute('whole')), '1');
  });

  it('does not end the processes of earlier cells', LIMITS, async () => {
    await client.execute(
      "import { spawn } from 'node:child_process'; const server = spawn('sleep', ['1000']);",
    );
    const { ended } = await started("execSync('sleep 600; true')");
    await sleeps(executor);
    await interrupt();
    await ended;
    assert.equal(resultText(await client.execute('server.signalCode ?? server.kill()')), 'true');
  });

  it(
    'names the process that the cell waits for; a second interrupt ends the process of the cells',
    LIMITS,
    async () => {
      const { ended } = await started(`execSync('${STUBBORN}')`);
      await sleeps(executor);
      const said = await line();
      assert.match(
        said,
        new RegExp(`pid ${executor}\\).* inside a native call: .*child process '.*sleep 600' \\(pid \\d+\\)`),
      );
      assert.match(
        said,
        /Interrupt again within 5 s to end the process: the variables of the notebook are lost then/,
      );
      await interrupt();
      const { content } = (await ended).reply;
      assert.equal(content.ename, 'KernelDied');
      assert.match(String(content.evalue), /a second interrupt ended it.*variables are lost/);
      assert.match(
        String((await client.execute('kept')).reply.content.evalue),
        /the process that held the value has ended/,
      );
      assert.equal(resultText(await client.execute('1 + 1')), '2');
    },
  );

  it('says that the cell waits for a FIFO', LIMITS, async () => {
    const fifo = join(client.folder, 'fifo');
    execFileSync('mkfifo', [fifo]);
    await client.execute("import { readFileSync } from 'node:fs';");
    const { ended } = await started(`readFileSync('${fifo}')`);
    assert.match(
      await line(),
      /inside a native call: it waits until another process opens the other end of a FIFO/,
    );
    await interrupt();
    assert.equal((await ended).reply.content.ename, 'KernelDied');
  });
});

describe('an interrupt of a stopped process', { skip: NO_PROC }, () => {
  it(
    'says that the process of the cells is stopped, and takes effect when it continues',
    LIMITS,
    async () => {
      await client.execute('let still = 1;');
      const { ended } = await started('await new Promise(() => {})');
      process.kill(executor, 'SIGSTOP');
      assert.match(
        await line(),
        new RegExp(`is stopped \\(state T\\); kill -CONT ${executor} lets it continue`),
      );
      process.kill(executor, 'SIGCONT');
      assert.equal((await ended).reply.content.ename, 'ShardlabError[INTERRUPTED]');
      assert.equal(resultText(await client.execute('still')), '1');
    },
  );

  it('replaces a stopped compiler, and nothing is lost', LIMITS, async () => {
    const compiler = await compilerOf(client.pid);
    process.kill(compiler, 'SIGSTOP');
    const ended = client.execute('still + 1');
    await client.until(({ header }) => header.msg_type === 'execute_input');
    await interrupt();
    const { content } = (await ended).reply;
    assert.equal(content.ename, 'ShardlabError[INTERRUPTED]');
    assert.match(
      String(content.evalue),
      new RegExp(`compiler \\(pid ${compiler}\\) is stopped.*nothing is lost`),
    );
    assert.equal(resultText(await client.execute('still + 1')), '2');
  });
});

describe('an interrupt of ranks in native calls', { skip: NO_PROC }, () => {
  before(async () => {
    const code = "import * as sl from 'shardlab'; const job = await sl.launch({ ranks: 2 }); let near = 1;";
    const { reply } = await client.execute(code);
    assert.equal(reply.content.status, 'ok', JSON.stringify(reply.content));
    await client.execute("%%ranks\nimport { execSync } from 'node:child_process';");
  });

  it('ends the processes that the ranks wait for, and the ranks stay alive', LIMITS, async () => {
    const ended = client.execute("%%ranks\nexecSync('sleep 600; true')");
    await sleeps(client.pid);
    await interrupt();
    assert.equal((await ended).reply.content.ename, 'ShardlabError[INTERRUPTED]');
    const { published } = await client.execute('%%ranks\nworldSize');
    assert.match(JSON.stringify(published.map(({ content }) => content)), /ranks 0-1 agree/);
  });

  it('says which rank is in which call; a second interrupt ends only that rank', LIMITS, async () => {
    const ended = client.execute(`%%ranks 1\nexecSync('${STUBBORN}')`);
    await sleeps(client.pid);
    const said = await line();
    assert.match(said, /rank 1 \(pid \d+\) is inside a native call: .*child process '.*sleep 600'/);
    assert.doesNotMatch(said, /rank 0/);
    assert.match(said, /Interrupt again within 5 s to end rank 1: its variables are lost then/);
    await interrupt();
    assert.equal((await ended).reply.content.ename, 'ShardlabError[INTERRUPTED]');
    assert.equal(resultText(await client.execute('near')), '1');
    const [error] = contents(await client.execute('%%ranks\nrank'), 'error');
    assert.match(String(error?.evalue), /rank 1's process ended \(SIGKILL\).*await job\.heal\(\)/);
  });
});
