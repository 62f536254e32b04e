import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { JupyterClient, resultText, streamText } from './jupyter-client';
import { family, goneIn, NO_PROC } from './processes';

async function interruptTime(client: JupyterClient, form: string): Promise<number> {
  const running = client.execute(`console.log('started'); ${form}`);
  await client.until(({ content }) => content.text === 'started\n');
  const asked = performance.now();
  await client.request('interrupt_request', {}, 'control');
  const { reply } = await running;
  assert.equal(reply.content.ename, 'ShardlabError[INTERRUPTED]', form);
  return performance.now() - asked;
}

describe('the life of a kernel', { skip: NO_PROC }, () => {
  it('ends with all of its processes on shutdown', async () => {
    const client = await JupyterClient.start();
    await client.execute("import { spawn } from 'node:child_process'; spawn('sleep', ['1000']); 1");
    const pids = family(client.pid);
    assert.ok(pids.length >= 4);
    await client.stop();
    await goneIn(pids);
  });

  it('leaves nothing behind when its front is killed while a cell loops', async () => {
    const client = await JupyterClient.start();
    await client.execute('1');
    const pids = family(client.pid);
    void client.execute('while (true) {}');
    await client.until(({ header }) => header.msg_type === 'execute_input');
    process.kill(client.pid, 'SIGKILL');
    await goneIn(pids);
    client.close();
  });

  it('leaves nothing behind when the process that started it is killed', async () => {
    const client = await JupyterClient.start({ launcher: join(__dirname, 'launcher.js') });
    await client.execute('1');
    const pids = family(client.pid);
    process.kill(client.pid, 'SIGKILL');
    await goneIn(pids);
    client.close();
  });

  it('survives the death of the process that runs cells, and says what is lost', async () => {
    const client = await JupyterClient.start();
    await client.execute('let lost = 1');
    const { reply } = await client.execute(
      "process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})",
    );
    assert.equal(reply.content.ename, 'KernelDied');
    assert.match(String(reply.content.evalue), /SIGKILL.*variables are gone/);
    const next = await client.execute('lost');
    assert.equal(next.reply.content.ename, 'TypeScriptError[TS2304]');
    assert.equal(resultText(await client.execute('2 + 2')), '4');
    await client.stop();
  });

  it('shows what processes that a cell started write', async () => {
    const client = await JupyterClient.start();
    const code =
      "import { spawnSync } from 'node:child_process';\nspawnSync('sh', ['-c', 'echo from outside'], { stdio: 'inherit' }); await new Promise((r) => setTimeout(r, 50));";
    assert.equal(streamText(await client.execute(code)), 'from outside\n');
    await client.stop();
  });

  it('ends a loop, a wait and a pending promise in under 100 ms with variables kept', async () => {
    const client = await JupyterClient.start();
    await client.execute('let kept = 1');
    const forms = [
      'while (true) {}',
      'await 1; while (true) {}',
      'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
      'await new Promise(() => {})',
      'while (true) await new Promise((done) => setTimeout(done, 1))',
    ];
    for (const form of forms) {
      // The best of three: what else the machine does is no property of the kernel.
      const times = [];
      for (let i = 0; i < 3; i++) times.push(await interruptTime(client, form));
      assert.ok(Math.min(...times) < 100, `${form}: ${times.join(', ')} ms`);
      assert.equal(resultText(await client.execute('kept')), '1');
    }
    await client.stop();
  });
});
