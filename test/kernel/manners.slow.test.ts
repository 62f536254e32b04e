import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { MAGICS, type Magic } from '../../kernel/compiler/magic-table';
import { contents, type Exchange, JupyterClient, resultText, streamText } from './jupyter-client';

let client: JupyterClient;
/** A folder for state of kernels, such as their history. */
let state: string;

before(async () => {
  state = mkdtempSync(join(tmpdir(), 'shardlab-manners-'));
  client = await JupyterClient.start({ env: historyIn(state) });
  mkdirSync(join(client.folder, 'data'));
  writeFileSync(join(client.folder, 'data.json'), '{ "layers": 2 }');
});

after(async () => {
  await client.stop();
  rmSync(state, { recursive: true });
});

function historyIn(folder: string): NodeJS.ProcessEnv {
  return { XDG_STATE_HOME: folder, SHARDLAB_HISTORY: '' };
}

/** What a cell shows: its printed text, else its result, else its error. */
function shownBy(exchange: Exchange): string {
  const { evalue } = exchange.reply.content;
  const texts = [streamText(exchange), streamText(exchange, 'stderr'), resultText(exchange), evalue];
  return texts.filter((text) => typeof text === 'string' && text !== '').join('\n');
}

/** Code of cells, and what each shows. */
const ROWS: readonly (readonly [code: string, shown: RegExp])[] = [
  ['%pwd', /^'\/.*shardlab-kernel-/],
  ['%cd data\n%pwd', /^\/.*data\n\n'.*\/data'$/],
  ['%cd -', /shardlab-kernel-\w+\n$/],
  ['%cd nowhere', /^%cd nowhere: .*\/nowhere is not a folder that can be opened; check the path$/],
  ['%env SHARD = "a b"\nprocess.env.SHARD', /^env: SHARD=a b\n\n'a b'$/],
  ['%env SHARD', /^'a b'$/],
  ['process.env.MY_TOKEN = "x";\n%env', /MY_TOKEN: '<hidden>'/],
  ['%env NOWHERE', /^%env NOWHERE: there is no such variable; set it by %env NOWHERE=value$/],
  ['%time 1 + 1', /^CPU times: user \S+ .s, sys: \S+ .?s, total: \S+ .s\nWall time: \S+ .s\n\n2$/],
  ['%%time\nconst timed = 5;\ntimed', /^CPU times: [\s\S]*\n5$/],
  ['// %%time\ntimed', /^CPU times: [\s\S]*\n5$/],
  [
    '%timeit -n 10 -r 3 Math.sqrt(2)',
    /^\S+ .s ± \S+ .s per loop \(mean ± std\. dev\. of 3 runs, 10 loops each\)\n$/,
  ],
  ['%%timeit -n 2 -r 2\nawait null;', /of 2 runs, 2 loops each/],
  ['!echo "one two" | cat', /^one two\n$/],
  ['!exit 3', /^!exit 3: the command ended with exit code 3\n$/],
  ['%%bash\nfor i in 1 2; do echo $i; done\necho late >&2', /^1\n2\n\nlate\n$/],
  ['// %%sh\necho sh', /^sh\n$/],
  ['%%bash\nexit 7', /^%%bash: the script ended with exit code 7$/],
  ['%%writefile made.ts\nexport const made = 4;', /^Wrote made\.ts\n$/],
  ["import { made } from './made';\nmade", /^4$/],
  ['%who', /\btimed\b/],
  ['%whos', /Name +Cell +Type\n-+\n[\s\S]*timed +In\[\d+\] +5/],
  ['%history -n', / 1: %pwd\n {3}2: %cd data\n/],
  ['%lsmagic', /^%%ranks [\s\S]*%timeit [\s\S]*!command /],
  ['%%rnks', /^%%rnks is not a magic, the nearest one is %%ranks; %lsmagic lists all magics$/],
  ["import data from './data.json';\ndata.layers + 1", /^3$/],
  [
    'import.meta.dirname === import.meta.filename.replace(/.[^/]*$/, "") && import.meta.url',
    /^'file:\/\/.*'$/,
  ],
  ['var again = 1;', /^$/],
  ['var again = "text";\nagain', /^'text'$/],
  [
    '%%ranks --check\nprompt("who")',
    /Cannot find name 'prompt'\. Only the notebook has prompt: use it in a cell without %%ranks,/,
  ],
];

describe('the manners of the kernel', () => {
  for (const [code, shown] of ROWS)
    it(`${code.replaceAll('\n', '⏎')}`, async () => assert.match(shownBy(await client.execute(code)), shown));

  it('%%html and %%markdown show the text of the cell', async () => {
    for (const [name, type] of [
      ['html', 'text/html'],
      ['markdown', 'text/markdown'],
      ['latex', 'text/latex'],
      ['javascript', 'application/javascript'],
    ]) {
      const [shown] = contents(await client.execute(`%%${name}\n<b>bold</b>`), 'display_data');
      assert.equal(Reflect.get(Object(shown?.data), String(type)), '<b>bold</b>');
    }
  });

  it('%%bash shows its output while it runs, and is interrupted', async () => {
    const busy = client.execute('%%bash\necho begun\nsleep 60\necho ended');
    await client.until(({ header, content }) => header.msg_type === 'stream' && content.text === 'begun\n');
    await client.request('interrupt_request', {}, 'control');
    const exchange = await busy;
    assert.equal(exchange.reply.content.ename, 'ShardlabError[INTERRUPTED]');
    assert.equal(streamText(exchange), 'begun\n');
  });

  it('// %%ranks runs in all ranks, and %%rank in one', async () => {
    const launched = "import * as sl from 'shardlab';\nconst job = await sl.launch({ ranks: 2 });";
    assert.equal((await client.execute(launched)).reply.content.status, 'ok');
    await client.execute('// %%ranks\nconst mine: number = rank * 10;');
    await client.execute('%%rank 1\nconst own = mine + 1;');
    const values = "[await job.get('mine'), await job.on(1).get('own')]";
    assert.equal(shownBy(await client.execute(values)), '[ [ 0, 10 ], [ 11 ] ]');
    assert.match(shownBy(await client.execute('%whos ranks')), /mine +In\[\d+\] +number\nown /);
    await client.execute('await job.shutdown()');
  });

  it('%timeit is interrupted', async () => {
    const busy = client.execute('%timeit await new Promise((resolve) => setTimeout(resolve, 10))');
    await client.until(({ header }) => header.msg_type === 'execute_input');
    await client.request('interrupt_request', {}, 'control');
    assert.equal((await busy).reply.content.ename, 'ShardlabError[INTERRUPTED]');
    assert.match(shownBy(await client.execute('%timeit -n 1 -r 1 1')), /of 1 run, 1 loop each/);
  });

  it('%npm install makes a package importable in the next cell', async () => {
    const folder = join(client.folder, 'package');
    mkdirSync(folder);
    writeFileSync(
      join(folder, 'package.json'),
      '{ "name": "small-package", "version": "1.0.0", "type": "module", "exports": "./index.js" }',
    );
    writeFileSync(join(folder, 'index.js'), 'export const size = 3;');
    writeFileSync(join(folder, 'index.d.ts'), 'export declare const size: number;');
    const before_ = await client.execute("import { size } from 'small-package';");
    assert.equal(before_.reply.content.status, 'error');
    const installed = await client.execute('%npm install --offline --no-audit --no-fund ./package');
    assert.equal(installed.reply.content.status, 'ok', shownBy(installed));
    assert.equal(shownBy(await client.execute("import { size } from 'small-package';\nsize")), '3');
  });

  it('the Tab key offers magics, and inspection shows their help', async () => {
    const matches = async (code: string): Promise<unknown> =>
      (await client.request('complete_request', { code, cursor_pos: [...code].length })).content.matches;
    const all = Object.entries<Magic>(MAGICS);
    const lines = all.filter(([, { line }]) => line?.startsWith('%')).map(([name]) => `%${name}`);
    const cells = all.filter(([, { cell }]) => cell !== undefined).map(([name]) => `%%${name}`);
    assert.deepEqual(await matches('%'), [...lines, ...cells].sort());
    assert.deepEqual(await matches('%%r'), ['%%rank', '%%ranks']);
    assert.deepEqual(await matches('// %%ra'), ['%%rank', '%%ranks']);
    assert.deepEqual(await matches('1;\n%time'), ['%time', '%timeit']);
    assert.deepEqual(await matches('1 %'.padEnd(4)), await matches('1 % '));
    const help = await client.request('inspect_request', {
      code: '// %%ranks 0\nrank',
      cursor_pos: 6,
      detail_level: 0,
    });
    assert.match(JSON.stringify(help.content.data), /Runs the cell in the ranks of the newest job/);
    for (const code of ['%%ranks?', '?%%ranks', '%time?']) {
      const [page] = Object(await client.execute(code)).reply.content.payload;
      assert.equal(page.source, 'page');
      assert.match(page.data['text/plain'], /^%/);
    }
  });

  it('an empty line ends the text of a cell magic that is typed line by line', async () => {
    for (const [code, status] of [
      ['%%bash', 'incomplete'],
      ['%%bash\nls', 'incomplete'],
      ['%%bash\nls\n', 'complete'],
      ['%%ranks', 'incomplete'],
      ['%%ranks\n1', 'complete'],
      ['%cd data', 'complete'],
      ['%lsmagic', 'complete'],
    ])
      assert.equal((await client.request('is_complete_request', { code })).content.status, status, code);
  });

  it('a command that writes much does not fill the memory', async () => {
    const peak = 'Math.round(process.resourceUsage().maxRSS / 1e3)';
    const megabytes = Number(resultText(await client.execute(peak)));
    const exchange = await client.execute('!yes | head -c 200000000');
    assert.equal(exchange.reply.content.status, 'ok');
    assert.ok(streamText(exchange).length < 2e6);
    const more = Number(resultText(await client.execute(peak))) - megabytes;
    assert.ok(more < 150, `${more} MB`);
  });

  it('the history has the cells of earlier kernels, and survives a broken file', async () => {
    const file = join(state, 'shardlab', 'history.jsonl');
    writeFileSync(file, `${readFileSync(file, 'utf8')}{ "broken\n3\nnull\n`);
    const [first, second] = [
      await JupyterClient.start({ env: historyIn(state) }),
      await JupyterClient.start({ env: historyIn(state) }),
    ];
    await Promise.all([first.execute('let first = 1'), second.execute('let second = 2')]);
    await first.execute('let hidden = 1', { store_history: false });
    await first.stop();
    const ask = async (content: object): Promise<unknown> =>
      (await second.request('history_request', { output: false, raw: true, ...content })).content.history;
    const tail = await ask({ hist_access_type: 'tail', n: 2 });
    assert.deepEqual(tail, [
      [2, 1, 'let first = 1'],
      [0, 1, 'let second = 2'],
    ]);
    assert.deepEqual(await ask({ hist_access_type: 'range', session: -2, start: 1, stop: 2 }), [
      [1, 1, '%pwd'],
    ]);
    assert.deepEqual(await ask({ hist_access_type: 'range', session: 0 }), [[0, 1, 'let second = 2']]);
    assert.deepEqual(await ask({ hist_access_type: 'search', pattern: '*hidden*' }), []);
    assert.match(
      shownBy(await second.execute('%history -n -l 3')),
      /^ 2\/1: let first = 1\n {3}1: let second = 2\n/,
    );
    await second.stop();
  });

  it('SHARDLAB_HISTORY=0 stores nothing', async () => {
    const empty = mkdtempSync(join(tmpdir(), 'shardlab-manners-'));
    const quiet = await JupyterClient.start({ env: { XDG_STATE_HOME: empty, SHARDLAB_HISTORY: '0' } });
    await quiet.execute('1');
    await quiet.stop();
    assert.throws(() => realpathSync(join(empty, 'shardlab')));
    rmSync(empty, { recursive: true });
  });

  it('exit ends the kernel, unless a cell has declared the name', async () => {
    const other = await JupyterClient.start();
    const ended = once(other.process, 'exit');
    await other.execute('const quit = 5');
    assert.equal(shownBy(await other.execute('quit')), '5');
    const { reply } = await other.execute('exit');
    assert.deepEqual(reply.content.payload, [{ source: 'ask_exit', keepkernel: false }]);
    assert.deepEqual(await ended, [0, null]);
    other.close();
  });
});
