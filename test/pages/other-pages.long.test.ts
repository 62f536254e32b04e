import { testCells } from './run-pages';

testCells('cell', (page) => !page.startsWith('docs/how-to/'));
