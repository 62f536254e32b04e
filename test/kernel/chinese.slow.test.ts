import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Exchange, JupyterClient, streamText } from './jupyter-client';

let client: JupyterClient;
const language = process.env.SHARDLAB_LANG;

before(async () => {
  process.env.SHARDLAB_LANG = 'zh';
  client = await JupyterClient.start();
  const code = "import * as sl from 'shardlab';\nconst job = await sl.launch({ ranks: 2 });";
  assert.equal((await client.execute(code)).reply.content.status, 'ok');
});

after(async () => {
  process.env.SHARDLAB_LANG = language;
  await client.execute('await job.shutdown()');
  await client.stop();
});

/** The error of a cell: its message, the first line that a notebook shows, and the line behind it. */
function errorOf({ reply: { content } }: Exchange): { evalue: string; first: string; second: string } {
  assert.equal(content.status, 'error');
  const [first, second] = Array.isArray(content.traceback) ? content.traceback : [];
  return { evalue: String(content.evalue), first: String(first), second: String(second) };
}

test("a cell's error begins in Chinese, and its message stays English", async () => {
  const code = `await job.train(JSON.parse('{ "optimizer": { "lr": "fast" } }'))`;
  const { evalue, first, second } = errorOf(await client.execute(code));
  assert.match(first, /^optimizer\.lr：应为.*"fast"/);
  assert.match(evalue, /^optimizer\.lr: expected .*, got "fast"/);
  assert.equal(second, `ShardlabError[CONFIG]: ${evalue}`);
});

test("an error of a rank begins in Chinese, with the rank and the cell's line", async () => {
  const code = "%%ranks 1\nimport { nn } from 'shardlab/rank';\nnew nn.Linear(0, 2);";
  const { evalue, first, second } = errorOf(await client.execute(code));
  assert.match(evalue, /^\[rank 1\/2\] [^\p{Script=Han}]+ \(cell \d+, line \d\)$/u);
  assert.match(first, /^\[rank 1\/2\] .*\p{Script=Han}.* \(cell \d+, line \d\)$/u);
  assert.match(second, /^ShardlabError\[CONFIG\]: \[rank 1\/2\] /);
});

test("a rank's death is shown in Chinese", async () => {
  const code = "%%ranks 0\nprocess.kill(process.pid, 'SIGKILL');\nawait new Promise(() => {});";
  const { first } = errorOf(await client.execute(code));
  assert.match(first, /^cell \d+ 运行时，rank 0 的进程退出了/);
});

test("errors of JavaScript, of the checker and of the user's classes stay as they are", async () => {
  for (const code of ["throw new Error('there is no parameter wte')", "const n: number = 'a'"]) {
    const { evalue, first } = errorOf(await client.execute(code));
    assert.doesNotMatch(first, /\p{Script=Han}/u, evalue);
  }
});

test('an error that nobody caught begins in Chinese too', async () => {
  const code =
    "setTimeout(() => void sl.plan('no-such-model'));\nawait new Promise((resolve) => setTimeout(resolve, 300));";
  const text = streamText(await client.execute(code), 'stderr');
  assert.match(text, /^Nobody caught this error.*:\n.*\p{Script=Han}.*\nShardlabError\[CONFIG\]: /mu);
});
