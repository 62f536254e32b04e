import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { JupyterClient, resultText } from './jupyter-client';
import { compilerOf, goneIn, NO_PROC } from './processes';

let client: JupyterClient;

before(async () => {
  client = await JupyterClient.start();
});

after(() => client.stop());

/** Ends the compiler as the host does when memory runs out. */
async function killCompiler(): Promise<void> {
  const compiler = await compilerOf(client.pid);
  process.kill(compiler, 'SIGKILL');
  await goneIn([compiler]);
}

async function shownBy(code: string): Promise<unknown> {
  const exchange = await client.execute(code);
  assert.equal(exchange.reply.content.status, 'ok', JSON.stringify(exchange.reply.content));
  return resultText(exchange);
}

describe('a compiler whose process dies', { skip: NO_PROC }, () => {
  it('between two cells is replaced by one that knows all names, and no cell runs again', async () => {
    await client.execute("import { basename } from 'node:path'; let runs = 0; type Point = { x: number };");
    await client.execute("runs++; const point: Point = { x: 1 }; let changed: string = 'old';");
    await client.execute('runs++; let changed = 7; class Dot { point = point }');
    await killCompiler();
    assert.equal(
      await shownBy("basename('/a/b') + runs + changed.toFixed(1) + new Dot().point.x"),
      "'b27.01'",
    );
    const wrong = await client.execute('point.y');
    assert.match(String(wrong.reply.content.evalue), /Property 'y' does not exist on type 'Point'/);
    assert.equal((await client.execute('point = { x: 2 }')).reply.content.ename, 'TypeScriptError[TS2588]');
    await client.execute('const later = point;');
    await killCompiler();
    assert.equal(await shownBy('later.x'), '1');
  });

  it('while it checks a cell is replaced, and the new one checks that cell', async () => {
    const compiler = await compilerOf(client.pid);
    process.kill(compiler, 'SIGSTOP');
    const running = client.execute('let once = 1; once');
    await client.until(({ header }) => header.msg_type === 'execute_input');
    process.kill(compiler, 'SIGKILL');
    const exchange = await running;
    assert.equal(exchange.reply.content.status, 'ok', JSON.stringify(exchange.reply.content));
    assert.equal(resultText(exchange), '1');
    assert.equal(await shownBy('once + 1'), '2');
  });

  it('twice while it checks a cell gives that cell an error, and the next cell works', async () => {
    const first = await compilerOf(client.pid);
    process.kill(first, 'SIGSTOP');
    const running = client.execute('const fatal = 1;');
    await client.until(({ header }) => header.msg_type === 'execute_input');
    process.kill(first, 'SIGKILL');
    process.kill(await compilerOf(client.pid, [first]), 'SIGKILL');
    const { reply } = await running;
    assert.equal(reply.content.ename, 'ShardlabError[INTERNAL]');
    assert.match(
      String(reply.content.evalue),
      /ended twice \(SIGKILL\).*did not run.*types of earlier cells/,
    );
    assert.equal(await shownBy('1 + 1'), '2');
  });
});
