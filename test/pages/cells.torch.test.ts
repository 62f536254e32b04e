import { testCells } from './run-pages';

testCells('torch cell', () => true);
