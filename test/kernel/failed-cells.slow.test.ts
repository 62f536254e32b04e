import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { JupyterClient, resultText } from './jupyter-client';
import { compilerOf, goneIn, NO_PROC } from './processes';

let client: JupyterClient;

before(async () => {
  client = await JupyterClient.start();
});

after(() => client.stop());

/** The error of a cell, with the cell's number. */
async function failure(code: string): Promise<{ number: number; evalue: string; traceback: string }> {
  const { content } = (await client.execute(code)).reply;
  assert.equal(content.status, 'error', `this cell succeeded: ${code}`);
  const traceback = Array.isArray(content.traceback) ? content.traceback.join('\n') : '';
  return { number: Number(content.execution_count), evalue: String(content.evalue), traceback };
}

describe('a cell that fails its type check', () => {
  it('loads its imports and says so; nothing else of the cell runs', async () => {
    const { traceback } = await failure(
      "import { basename } from 'node:path';\nimport fs, { type Stats } from 'node:fs';\nconsole.log('ran'); const n: number = 'one';",
    );
    assert.match(traceback, /TS2322/);
    assert.match(traceback, /Only the cell's imports ran: basename, fs, Stats/);
    assert.equal(resultText(await client.execute("basename('/a/b')")), "'b'");
    const stats = "let stats: Stats = fs.statSync('.'); stats.isDirectory()";
    assert.equal(resultText(await client.execute(stats)), 'true');
  });

  it('loads the valid imports if another import is wrong, or if the cell does not parse', async () => {
    await failure(
      "import { join } from 'node:path';\nimport { nothing } from 'node:os';\nimport 'no-such-package';",
    );
    assert.equal(resultText(await client.execute("join('a', 'b')")), "'a/b'");
    await failure("import { sep } from 'node:path';\nconst broken = (;");
    assert.equal(resultText(await client.execute('sep')), "'/'");
  });

  it('is named in the error of a later cell that needs its declarations, until it is fixed', async () => {
    const { number } = await failure("const width: number = 'wide'; type Size = { w: number };");
    const sentence = `Cell ${number} would have declared the name, but the cell failed its type check: fix the cell and run it again.`;
    assert.ok((await failure('width + 1')).evalue.endsWith(sentence));
    assert.ok((await failure('let size: Size')).evalue.endsWith(sentence));
    await client.execute('const width = 3;');
    assert.equal(resultText(await client.execute('width')), '3');
    assert.match((await failure('height')).evalue, /Cannot find name 'height'\.$/);
  });

  it('is also named after the compiler was restarted', { skip: NO_PROC }, async () => {
    const { number } = await failure("const height: number = 'high';");
    const compiler = await compilerOf(client.pid);
    process.kill(compiler, 'SIGKILL');
    await goneIn([compiler]);
    assert.match((await failure('height')).evalue, new RegExp(`Cell ${number} would have declared the name`));
  });

  it('with %%ranks says that its imports wait for a job, if there is no job', async () => {
    const { number, traceback } = await failure(
      "%%ranks\nimport { posix } from 'node:path';\nconst n: number = 'one';",
    );
    assert.match(traceback, /The cell's imports could not be loaded: .*%%ranks needs a job/);
    assert.match(
      (await failure('%%ranks\nposix')).evalue,
      new RegExp(`Cell ${number} would have declared the name`),
    );
  });
});

describe('a cell whose process has ended', () => {
  it('is named in the error of a later cell that uses its declarations', async () => {
    await client.execute('let before = 1;');
    const { number } = await failure(
      "let within = 2; process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})",
    );
    const ended = (cell: number): string =>
      `Cell ${cell} declared the name, but the process that held the value has ended: run that cell again.`;
    assert.ok((await failure('before')).evalue.endsWith(ended(number - 1)));
    assert.ok((await failure('within')).evalue.endsWith(ended(number)));
  });
});
