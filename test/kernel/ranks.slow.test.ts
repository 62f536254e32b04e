import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { valuesHere } from '../support/cases';
import { contents, type Exchange, JupyterClient, resultText, shownText } from './jupyter-client';
import { compilerOf, family, goneIn, NO_PROC } from './processes';

let client: JupyterClient;

before(async () => {
  client = await JupyterClient.start();
  const code = "import * as sl from 'shardlab';\nconst job = await sl.launch({ ranks: 2 });";
  const { reply } = await client.execute(code);
  assert.equal(reply.content.status, 'ok', JSON.stringify(reply.content));
});

after(async () => {
  await client.execute('await job.shutdown()');
  await client.stop();
});

describe('the steps of a run in a cell', () => {
  const TRAIN =
    "const run = await job.train({ model: { kind: 'gpt', layers: 1, dim: 8, heads: 1, vocab: 32, seq: 4 }, data: 'synthetic' })";

  /** The displays of an execution: their ids, by display and by update. */
  const displaysOf = (exchange: Exchange) => {
    const idsOf = (type: string) =>
      contents(exchange, type).map(({ transient }) => Reflect.get(Object(transient), 'display_id'));
    return { made: idsOf('display_data'), updated: new Set(idsOf('update_display_data')) };
  };

  it('have one display for a loop of calls, for a loop over run.steps, and for a call of many steps', async () => {
    assert.equal((await client.execute(TRAIN)).reply.content.status, 'ok');
    let numSteps = 0;
    for (const code of [
      'for (let i = 0; i < 11; i++) await run.step(1);',
      'for await (const { step } of run.steps(11));',
      'for await (const { step } of run.steps()) if (step === 33) break;',
      'await run.step(11);',
    ]) {
      const exchange = await client.execute(code);
      const { made, updated } = displaysOf(exchange);
      assert.equal(made.length, 1, code);
      assert.deepEqual([...updated], made, code);
      numSteps += 11;
      const step = new RegExp(`^step ${numSteps}(/${numSteps})? {2}loss \\d\\.\\d{4}`);
      assert.match(shownText(exchange), step, code);
    }
    assert.equal(resultText(await client.execute('run.lastStep')), String(numSteps));
  });

  it('have a display of their own for each call of several steps, and for the short calls of each cell', async () => {
    const mixed = await client.execute(
      'await run.step(1); await run.step(11); await run.step(2); await run.step(11);',
    );
    assert.equal(displaysOf(mixed).made.length, 3);
    const again = await client.execute('await run.step(1)');
    assert.equal(displaysOf(again).made.length, 1);
    assert.match(shownText(again), /^step 70 {2}loss/);
  });

  it('fail with the line of the callback that failed', async () => {
    const { reply } = await client.execute(
      "run.addCallback({\n  onStepEnd() {\n    throw new RangeError('too far');\n  },\n});\nawait run.step(3);",
    );
    const { ename, evalue, execution_count: cell } = reply.content;
    assert.equal(ename, 'ShardlabError[CALLBACK]');
    assert.equal(evalue, `the callback onStepEnd (In[${cell}]:3) failed with RangeError: too far`);
    assert.equal(resultText(await client.execute('run.lastStep')), '71');
  });
});

describe('a %%ranks cell', () => {
  it('runs in every rank with its globals in scope, shows outputs by rank, and its variables stay', async () => {
    const code =
      "%%ranks\nconsole.log('rank', rank);\nlet x = tf.ones([2]).mul(rank + 1);\ndist.allReduce(x);\nx.dataSync()[0]";
    const text = shownText(await client.execute(code));
    assert.match(text, /rank 0[\s\S]*3[\s\S]*rank 1[\s\S]*3/);
    assert.match(shownText(await client.execute('%%ranks [1]\nx.dataSync()[1]')), /rank 1[\s\S]*3/);
    assert.match(shownText(await client.execute('%%ranks\nworldSize')), /ranks 0-1 agree\s+2/);
  });

  it('that does not type-check runs in no rank', async () => {
    const { reply } = await client.execute("%%ranks\nconsole.log('ran');\nconst s: string = rank;");
    assert.equal(reply.content.ename, 'TypeScriptError[TS2322]');
    assert.match(String(Reflect.get(Object(reply.content.traceback), 0)), /^In\[\d+\]:3:7 /);
  });

  it("is only type-checked with --check, which shows the type checker's messages", async () => {
    const wrong = await client.execute('%%ranks --check\nconst s: string = rank;');
    assert.equal(wrong.reply.content.status, 'ok');
    assert.match(
      String(resultText(wrong)),
      /In\[\d+\]:2:7 - error TS2322[\s\S]*nothing was sent to the ranks/,
    );
    assert.match(
      String(resultText(await client.execute('%%ranks --check [0]\nconst n: number = rank;'))),
      /no type errors/,
    );
    assert.equal((await client.execute('%%ranks\nn')).reply.content.ename, 'TypeScriptError[TS2304]');
  });

  it('gets values from the notebook, and gives its variables back', async () => {
    const put =
      'interface Row { size: number }\nconst rows: Row[] = [{ size: 2 }];\nawait job.put({ rows });';
    assert.equal((await client.execute(put)).reply.content.status, 'ok');
    assert.match(
      shownText(
        await client.execute('%%ranks\nconst sizes = rows.map((row) => row.size + rank);\nrows[0].size'),
      ),
      /ranks 0-1 agree\s+2/,
    );
    const wrong = await client.execute('%%ranks\nrows[0].sizes');
    assert.equal(wrong.reply.content.ename, 'TypeScriptError[TS2551]');
    assert.match(
      String(resultText(await client.execute("(await job.get('sizes')).map(([size]) => size.toFixed(1))"))),
      /'2\.0', '3\.0'/,
    );
    assert.match(
      String(resultText(await client.execute('await job.on(1).run(({ sizes, rank }) => sizes[0] + rank)'))),
      /\[ 4 \]/,
    );
    await client.execute(
      '%%ranks\nconst layer = new nn.Linear(4, 1); const opt = optim.sgd(layer, { lr: 0.1 });',
    );
    await client.execute(
      '%%ranks\ngradients(() => tf.mean(layer.apply(tf.ones([2, 4])))).backward(); opt.step();',
    );
    assert.match(String(resultText(await client.execute('job.memory().title'))), /peak/);
    assert.match(String(resultText(await client.execute('job.losses.length'))), /^1$/);
  });

  it("does not see the notebook's names, and the notebook does not see the cell's", async () => {
    assert.equal((await client.execute('%%ranks\njob')).reply.content.ename, 'TypeScriptError[TS2304]');
    assert.equal((await client.execute('x')).reply.content.ename, 'TypeScriptError[TS2304]');
  });

  it('finds the variables of earlier cells after the death of the compiler', { skip: NO_PROC }, async () => {
    const compiler = await compilerOf(client.pid);
    process.kill(compiler, 'SIGKILL');
    await goneIn([compiler]);
    assert.match(shownText(await client.execute('%%ranks\nx.size')), /ranks 0-1 agree\s+2/);
  });

  it('that fails its type check loads its imports in the ranks', async () => {
    const { content } = (
      await client.execute("%%ranks\nimport { basename } from 'node:path';\nrank = 'one';")
    ).reply;
    assert.match(String(content.traceback), /Only the cell's imports ran: basename/);
    assert.match(shownText(await client.execute("%%ranks\nbasename('/a/b')")), /ranks 0-1 agree\s+'b'/);
  });

  it('that fails in one rank is one error with rank, cell and line, and has declared what was above the line', async () => {
    const failing = (size: number): string =>
      `%%ranks\nconst half = ${size};\nif (rank === 1) throw new RangeError('one of two');\nconst whole = 2 * half;`;
    const exchange = await client.execute(failing(1));
    const errors = contents(exchange, 'error');
    assert.equal(errors.length, 1);
    assert.match(String(errors[0]?.evalue), /\[rank 1\/2\] RangeError: one of two \(cell \d+, line 3\)/);
    assert.match(shownText(await client.execute('%%ranks\nhalf')), /ranks 0-1 agree\s+1/);
    assert.match(shownText(await client.execute('%%ranks 0\nwhole')), /\s2$/);
    const { content } = (await client.execute('%%ranks\nwhole')).reply;
    assert.match(
      String(content.evalue),
      /\[rank 1\/2\] ReferenceError: whole is not defined\. No cell has declared it .* failed before it reached the declaration/,
    );
    // The cell runs again, with another value and then without its error.
    assert.equal((await client.execute(failing(3))).reply.content.status, 'error');
    assert.match(shownText(await client.execute('%%ranks\nhalf')), /ranks 0-1 agree\s+3/);
    await client.execute('%%ranks\nconst half = 4;\nconst whole = 2 * half;');
    assert.match(shownText(await client.execute('%%ranks\nwhole')), /ranks 0-1 agree\s+8/);
  });

  it("that calls a collective alone gives an error with the line in the user's cell", async () => {
    const { reply } = await client.execute('%%ranks 0\n\n// alone\ninterface I { a: 1 }\ndist.barrier()');
    assert.match(String(reply.content.evalue), /rank 0 waits in barrier #\d+ \(cell \d+, line 5\)/);
  });

  it('is refused for ranks that the job does not have', async () => {
    const { reply } = await client.execute('%%ranks 0,7\nconst nowhere = 1;');
    assert.match(String(reply.content.evalue), /rank 7 was selected, but the job has ranks 0-1/);
    const { content } = (await client.execute('%%ranks\nnowhere')).reply;
    assert.match(
      String(content.evalue),
      /Cell \d+ would have declared the name, but no rank has run the cell: run it again/,
    );
  });

  it('that loops is interrupted and its variables stay; so is a cell that waits for ranks', async () => {
    for (const code of [
      '%%ranks\nlet y = 7; while (true) {}',
      "await job.on('all').run(() => { while (true) {} })",
    ]) {
      const running = client.execute(code);
      await client.until(({ header }) => header.msg_type === 'execute_input');
      await untilBusy();
      await client.request('interrupt_request', {}, 'control');
      const { reply } = await running;
      assert.equal(reply.content.ename, 'ShardlabError[INTERRUPTED]', JSON.stringify(reply.content));
      assert.match(shownText(await client.execute('%%ranks\n[x.size, y]')), /ranks 0-1 agree\s+\[ 2, 7 \]/);
    }
  });

  it('leaves the notebook alive when a rank dies', async () => {
    const { reply } = await client.execute(
      "%%ranks 1\nprocess.kill(process.pid, 'SIGKILL'); while (true) {}",
    );
    assert.equal(reply.content.ename, 'ShardlabError[RANK_DIED]');
    assert.equal(resultText(await client.execute('1 + 1')), '2');
  });

  it('says how to heal the job, and after that what was lost, in the cells of the user', async () => {
    const refused = (await client.execute('%%ranks\nlet mine = rank')).reply.content;
    assert.equal(refused.ename, 'ShardlabError[RANK_DIED]');
    assert.match(
      String(refused.evalue),
      /^rank 1's process ended \(SIGKILL\).*; await job\.heal\(\) to start the rank again$/,
    );
    const unhealed = (await client.execute('await job.heal()')).reply.content;
    assert.equal(unhealed.ename, 'ShardlabError[CONFIG]');
    assert.match(String(unhealed.evalue), /^run 1 has no copy of its state and no checkpoint/);
    const healed = resultText(await client.execute('await job.heal({ fromStart: true })'));
    assert.match(String(healed), /Run 1 begins again, from its first values; steps 1 to \d+ are repeated\./);
    assert.match(shownText(await client.execute('%%ranks\nconst mine = rank; mine')), /1/);
    await client.execute('await job.kill(0)');
    const lost = resultText(await client.execute('await job.heal({ fromStart: true })'));
    assert.match(
      String(lost),
      /^rank 0 runs again \(.*\)\.\nThe variables of cells there are lost: mine; run the cells that/,
    );
  });
});

describe('ranks of a notebook', { skip: NO_PROC }, () => {
  // training.long kills the front while ranks train.
  for (const victim of valuesHere(['front', 'executor'] as const, [1])) {
    it(`are gone soon after the kernel's ${victim} was killed during a cell`, async () => {
      const other = await JupyterClient.start();
      await other.execute("import * as sl from 'shardlab';\nconst job = await sl.launch({ ranks: 2 });");
      const kernel = family(other.pid);
      const ranks = JSON.parse(
        String(resultText(await other.execute('JSON.stringify(job.ranks.map((r) => r.pid))'))).slice(1, -1),
      );
      const executor = resultText(await other.execute('process.pid'));
      void other.execute('%%ranks\nwhile (true) {}');
      await other.until(({ header }) => header.msg_type === 'execute_input');
      process.kill(victim === 'front' ? other.pid : Number(executor), 'SIGKILL');
      await goneIn(ranks);
      if (victim === 'front') await goneIn(kernel);
      else await other.stop();
      other.close();
    });
  }
});

/** Resolves after the cell was compiled and sent: the kernel answers is_complete only then. */
async function untilBusy(): Promise<void> {
  await client.request('is_complete_request', { code: '1' });
  await client.request('is_complete_request', { code: '1' });
}
