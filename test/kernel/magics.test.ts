import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { MAGICS, type Magic, magicHelp } from '../../kernel/compiler/magic-table';
import { readMagics } from '../../kernel/front/magics';
import { ROOT } from '../project/sources';
import { compiler, emitted, errorInRanks, messages } from './cell-compiler';

describe('magics', () => {
  it('read the ranks of %%ranks, and do not move the code', () => {
    for (const [line, selection] of [
      ['%%ranks', 'all'],
      ['%%ranks 0', '0'],
      ['%%ranks [0,2-3]', '0,2-3'],
      ['%%ranks 1 // one', '1'],
    ]) {
      const asked = readMagics(`${line}\nrank`);
      assert.ok(asked.kind === 'ranks');
      assert.equal(asked.selection, selection);
      assert.equal(asked.source, `${' '.repeat(String(line).length)}\nrank`);
    }
  });

  it('read Python for ranks, and do not move its lines', () => {
    const source = '\nx = 1 // 2\nx';
    assert.deepEqual(readMagics('%%ranks --python\nx = 1 // 2\nx'), {
      kind: 'python',
      selection: 'all',
      source,
    });
    assert.deepEqual(readMagics('%%ranks 0,1 --python # two\nx = 1 // 2\nx'), {
      kind: 'python',
      selection: '0,1',
      source,
    });
    assert.equal(readMagics('%%ranks --pythonic\nx').kind, 'ranks');
  });

  it('read help before or after a name, and do not change other code', () => {
    assert.deepEqual(readMagics('?parseInt'), { kind: 'help', name: 'parseInt', inRanks: false });
    assert.deepEqual(readMagics('a.b?'), { kind: 'help', name: 'a.b', inRanks: false });
    assert.deepEqual(readMagics('%%ranks 0\nnn.Linear?'), { kind: 'help', name: 'nn.Linear', inRanks: true });
    assert.equal(readMagics('a ? b : c').kind, 'notebook');
  });

  it('read a cell magic in a comment, and leave other comments', () => {
    for (const sign of ['', '// ', '//']) {
      assert.equal(readMagics(`${sign}%%ranks 0\nrank`).kind, 'ranks');
      assert.deepEqual(readMagics(`${sign}%%bash\nls`), {
        kind: 'text',
        name: 'bash',
        options: '',
        body: 'ls',
      });
      assert.equal(faultOf(`${sign}%%ranks --python\nx`), '');
    }
    for (const comment of [
      '// %%',
      '// %% title',
      '// %%title',
      '// %cd',
      '// %%cd',
      '// %%bash scripts are short',
    ])
      assert.equal(readMagics(`${comment}\n1`).kind, 'notebook', comment);
  });

  it('read one rank of %%rank', () => {
    const cell = readMagics('%%rank 2\nrank');
    assert.ok(cell.kind === 'ranks' && cell.selection === '2');
    for (const selection of ['', ' 0,1', ' all', ' 0-3'])
      assert.match(
        faultOf(`%%rank${selection}\nrank`),
        /^%%rank names one rank, as in %%rank 0; for several/,
      );
  });

  it('name in one sentence what is wrong with a magic, and the nearest one', () => {
    for (const [code, fault] of [
      ['%%rnks\n1', '%%rnks is not a magic, the nearest one is %%ranks; %lsmagic lists all magics'],
      ['%hisory', '%hisory is not a magic, the nearest one is %history; %lsmagic lists all magics'],
      ['%xylophone', '%xylophone is not a magic; %lsmagic lists all magics'],
      ['%pip install x', '%pip is not a magic here: write !pip install …; %lsmagic lists all magics'],
      [
        '%ranks 0',
        '%ranks is not a line magic; write %%ranks [--check | --python] [ranks] as the first line of the cell',
      ],
      ['%%cd a', '%%cd is not a cell magic; write %cd [folder] on a line of its own'],
      ['%%bash -e\nls', '%%bash takes nothing else in its line; write the code below the line'],
      ['%who\n1', '%who must be alone in its cell'],
      ['%%pineapple?', '%%pineapple is not a magic; %lsmagic lists all magics'],
    ] as const)
      assert.equal(faultOf(code), fault);
  });

  it('show help on a magic', () => {
    for (const code of ['%%ranks?', '?%%ranks', '%time?', '?%time', '%%bash ??']) {
      const cell = readMagics(code);
      assert.ok(cell.kind === 'magic help', code);
      assert.match(magicHelp(cell.magic).text, /^%.*\n/);
    }
  });

  it('end the kernel by exit or quit alone in the cell', () => {
    for (const code of ['exit', 'quit', 'exit()', ' quit ( ) ;\n'])
      assert.equal(readMagics(code).kind, 'exit', code);
    for (const code of ['exit + 1', 'exit(1)', 'a\nexit'])
      assert.equal(readMagics(code).kind, 'notebook', code);
  });

  it('are those of the page about notebooks', () => {
    const page = readFileSync(join(ROOT, 'docs', 'reference', 'notebook.md'), 'utf8');
    const [, section = ''] = /\n## Magics\n(.*?)\n## /s.exec(page) ?? [];
    const rows = [...section.matchAll(/^- `(.*?)`(?:, `(.*?)`)?: (.*)$/gm)].map(([, ...texts]) => texts);
    const expected = Object.values<Magic>(MAGICS).map(({ line, cell, summary }) => {
      const usages = [line, cell].filter((usage) => usage !== undefined);
      return [usages[0], usages[1], summary];
    });
    assert.deepEqual(rows, expected);
  });
});

/** What is wrong with a cell's first line; '' if nothing is. */
function faultOf(code: string): string {
  const cell = readMagics(code);
  return cell.kind === 'fault' ? cell.message : '';
}

describe('line magics', () => {
  it('are calls between the statements, and move no position', () => {
    assert.equal(emitted('%cd data'), 'await __magic("cd", "data");');
    assert.equal(emitted('let a = 1\n%env A=b\na'), 'let a = 1; await __magic("env", "A=b"); a;');
    assert.equal(emitted('a\n%pwd'), 'a; await __magic("pwd", "");');
    assert.equal(emitted('!ls -la | head'), 'await __magic("sh", "ls -la | head");');
    assert.equal(emitted('!./run.sh'), 'await __magic("sh", "./run.sh");');
    const [message = ''] = messages('%cd data\n!ls\n  nothing');
    assert.match(message, /^In\[\d+\]:3:3 - error TS2304/);
    // A misspelled name in TypeScript is no command.
    assert.match(messages('const both = true &&\n!raedy')[0] ?? '', /^In\[\d+\]:2:2 - error TS2304/);
    assert.match(
      messages('%cd data\nconst both = true &&\n!raedy')[0] ?? '',
      /^In\[\d+\]:3:2 - error TS2304/,
    );
  });

  it('time a statement or the cell', () => {
    assert.equal(emitted('%time 1 + 1'), '__magic("time", "begin"); 1 + 1;');
    assert.equal(
      emitted('%time const b = [\n1]\nb'),
      '__magic("time", "begin"); let b = [ 1 ]; __magic("time", "end"); b;',
    );
    assert.equal(emitted('%%time\nconst c = 1;\nc'), '__magic("time", "begin"); let c = 1; c;');
    assert.equal(emitted('// %%time\n2'), '__magic("time", "begin"); 2;');
    assert.match(messages('%time  nothing')[0] ?? '', /^In\[\d+\]:1:8 - error TS2304/);
  });

  it('repeat the code of %timeit in a function, which is async only if it awaits', () => {
    assert.equal(
      emitted('%timeit -n 10 -r 2 Math.sqrt(2)'),
      'await __magic("timeit", "-n 10 -r 2", () => { return Math.sqrt(2); });',
    );
    assert.equal(
      emitted('%%timeit const d = 3\nlet e = d;\nawait e;'),
      'let d = 3; await __magic("timeit", "", async () => { let e = d; return await e; });',
    );
    assert.match(messages('e')[0] ?? '', /Cannot find name 'e'/);
    assert.deepEqual(messages('d'), []);
  });

  it('leave TypeScript as it stands', () => {
    emitted('const ready = true, time = 5');
    for (const [code, js] of [
      ['!ready', '!ready;'],
      ['!true', '!true;'],
      ['!await ready', '!await ready;'],
      ['!(ready)', '!(ready);'],
      ['!!ready', '!!ready;'],
      ['time\n%time', 'time % time;'],
      ['const text = `\n%cd data\n!ls\n`', 'let text = ` %cd data !ls `; void 0;'],
      ['/*\n%cd data\n*/ 1', '1;'],
      ['const both = ready &&\n!ready;', 'let both = ready && !ready; void 0;'],
      ['for (const part of [true])\n!part && ready;', 'for (const part of [true]) !part && ready; void 0;'],
      ['const not = (part: boolean) => (\n!part\n)', 'let not = (part) => (!part); void 0;'],
    ] as const)
      assert.equal(emitted(code), js);
  });

  it('say what is wrong in one sentence', () => {
    for (const [code, fault] of [
      ['1\n%cdd data', '%cdd is not a magic, the nearest one is %cd; %lsmagic lists all magics (line 2)'],
      ['1\n%%bash\nls', '%%bash must be the first line of its cell (line 2)'],
      ['1\n%who', '%who must be alone in its cell (line 2)'],
      [
        'const a = 1;\n%matplotlib inline',
        '%matplotlib is not a magic here: figures are shown without it; %lsmagic lists all magics (line 2)',
      ],
      [
        'if (1) {\n%cd data\n}',
        '%cd is inside a block; write it on a line of its own between the statements of the cell (line 2)',
      ],
    ] as const)
      assert.equal(messages(code)[0], `WrongMagic: ${fault}`);
    assert.equal(
      errorInRanks(' \n%cd data'),
      "line magics run in the notebook's process; write them in a cell without %%ranks",
    );
  });

  it('do not disturb completion, and help is_complete', () => {
    const source = '%time Math.sq';
    const at = { source, namespace: 'notebook', offset: source.length } as const;
    assert.deepEqual(compiler.complete(at).matches, ['sqrt']);
    assert.equal(compiler.isComplete('%cd data\n1').status, 'complete');
    assert.equal(compiler.isComplete('%time [').status, 'incomplete');
  });

  it('list declared names with their types', () => {
    emitted('class Net {} interface Shape { a: 1 } import * as fs from "node:fs"; const sizes = [1, 2]');
    const names = new Map(compiler.names('notebook').map(({ name, type }) => [name, type]));
    assert.deepEqual(
      ['Net', 'Shape', 'fs', 'sizes'].map((name) => names.get(name)),
      ['class', 'type', 'module', 'number[]'],
    );
  });
});
