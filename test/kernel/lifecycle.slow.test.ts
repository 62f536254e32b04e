import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ENDLESS, interruptTime } from './interrupt-time';
import { JupyterClient, resultText, streamText } from './jupyter-client';
import { family, goneIn, NO_PROC } from './processes';

describe('a kernel process that is killed', { skip: NO_PROC }, () => {
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
});

describe('a kernel process', { skip: NO_PROC }, () => {
  let client: JupyterClient;
  before(async () => {
    client = await JupyterClient.start();
  });
  after(() => client.stop());

  it('survives the death of the process that runs cells, and says that variables are gone', async () => {
    await client.execute('let lost = 1');
    const { reply } = await client.execute(
      "process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})",
    );
    assert.equal(reply.content.ename, 'KernelDied');
    assert.match(String(reply.content.evalue), /SIGKILL.*variables are lost/);
    const next = await client.execute('lost');
    assert.equal(next.reply.content.ename, 'TypeScriptError[TS2304]');
    assert.equal(resultText(await client.execute('2 + 2')), '4');
  });

  it('says that a cell called process.exit, and which cell', async () => {
    await client.execute('const leave = (code: number) => process.exit(code)');
    const { reply } = await client.execute('leave(0)');
    assert.equal(reply.content.ename, 'KernelDied');
    assert.match(
      String(reply.content.evalue),
      /ended \(the code called process\.exit\(0\) in In\[\d\]\); all variables are lost/,
    );
    assert.equal(resultText(await client.execute('2 + 2')), '4');
  });

  it('shows the output of processes that a cell started', async () => {
    const code =
      "import { spawnSync } from 'node:child_process';\nspawnSync('sh', ['-c', 'echo from outside'], { stdio: 'inherit' }); await new Promise((r) => setTimeout(r, 50));";
    assert.equal(streamText(await client.execute(code)), 'from outside\n');
  });

  it('ends a loop, a wait and a pending promise on interrupt, and variables stay', async () => {
    try {
      await client.execute('let kept = 1');
      for (const form of ENDLESS) {
        await interruptTime(client, form);
        assert.equal(resultText(await client.execute('kept')), '1');
      }
    } finally {
    }
  });
});
