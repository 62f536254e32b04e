// [Smoke: cells of Python]
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { JupyterClient, resultText, shownText } from './jupyter-client';

let client: JupyterClient;

before(async () => {
  client = await JupyterClient.start();
  await ok("import * as sl from 'shardlab';\nconst job = await sl.launch({ engine: 'torch', ranks: 2 });");
});

after(async () => {
  await client.execute('await job.shutdown()');
  await client.stop();
});

async function ok(code: string): ReturnType<JupyterClient['execute']> {
  const exchange = await client.execute(code);
  assert.equal(exchange.reply.content.status, 'ok', JSON.stringify(exchange.reply.content));
  return exchange;
}

describe('a %%ranks --python cell', () => {
  it('runs in every rank, shows outputs by rank, and its variables stay', async () => {
    const code =
      "%%ranks --python\nprint('rank', rank)\nx = torch.ones(2) * (rank + 1)\ndist.all_reduce(x)\nx.tolist()";
    assert.match(shownText(await ok(code)), /rank 0[\s\S]*rank 1[\s\S]*\[3\.0, 3\.0\]/);
    assert.match(shownText(await ok('%%ranks --python [1]\nx[1].item() + rank')), /rank 1[\s\S]*4\.0/);
    assert.match(shownText(await ok('%%ranks --python\nworld_size')), /ranks 0-1 agree\s+2/);
  });

  it('makes groups of its own, whose collectives are recorded and whose proofs are not', async () => {
    const code =
      'pair = dist.new_group([0, 1])\ny = torch.ones(3) * (rank + 1)\ndist.all_reduce(y, group=pair)\ndist.destroy_process_group(pair)\ny.tolist()';
    assert.match(shownText(await ok(`%%ranks --python\n${code}`)), /ranks 0-1 agree\s+\[3\.0, 3\.0, 3\.0\]/);
    const ops = 'job.view.records.at(-1)?.collectives.map(({ op, count }) => [op, count])';
    assert.match(String(resultText(await ok(ops))), /^\[ \[ 'allReduce', 3 \] \]$/);
  });

  it('gets values from the notebook, and gives its variables back', async () => {
    await ok('await job.put({ sizes: [1, 2.5] })');
    await ok('%%ranks --python\ntotals = [size + rank for size in sizes]');
    assert.match(
      String(resultText(await ok("await job.get('totals')"))),
      /\[ \[ 1, 2\.5 \], \[ 2, 3\.5 \] \]/,
    );
  });

  it('fails with the line of its error, and the ranks continue', async () => {
    const { reply } = await client.execute(
      "%%ranks --python\na = 1\ndist.barrier()\nif rank == 1: raise ValueError('boo')\ndist.barrier()",
    );
    assert.match(String(reply.content.evalue), /^\[rank 1\/2\] ValueError: boo \(cell \d+, line 4\)$/);
    assert.match(shownText(await ok('%%ranks --python\ndist.barrier(); a')), /ranks 0-1 agree\s+1/);
  });

  it('ends by an interrupt, also in a collective, and the ranks continue', async () => {
    for (const source of ['while True: pass', 'if rank == 0: dist.barrier()\nimport time; time.sleep(600)']) {
      const running = client.execute(`%%ranks --python\nprint('running', flush=True)\n${source}`);
      await client.until(({ content }) => JSON.stringify(content).includes('running'));
      await client.request('interrupt_request', {}, 'control');
      assert.equal((await running).reply.content.ename, 'ShardlabError[INTERRUPTED]');
      assert.match(shownText(await ok('%%ranks --python\ndist.barrier(); a')), /ranks 0-1 agree\s+1/);
    }
  });

  it('sees the model of a run, which trains in the same ranks', async () => {
    await ok(
      "const run = await job.train({ model: 'tiny', parallel: { strategy: 'FULL_SHARD' } });\nawait run.step(1);",
    );
    const names = await ok('%%ranks --python\ntype(list(runs.values())[0].model).__name__');
    assert.match(shownText(names), /ranks 0-1 agree\s+'FSDPGPT'/);
  });

  it('is refused by ranks of JavaScript, as TypeScript is by ranks of Python', async () => {
    const wrong = await client.execute('%%ranks\nrank');
    assert.match(String(wrong.reply.content.evalue), /%%ranks --python/);
  });
});
