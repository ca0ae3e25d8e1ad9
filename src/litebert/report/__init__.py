"""Reports: run folders to pages and tables; reads files only."""
