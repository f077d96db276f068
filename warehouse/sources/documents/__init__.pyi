from .folder import FolderDocuments as FolderDocuments
from .interface import Document as Document
from .interface import DocumentSource as DocumentSource
from .interface import documents_table as documents_table
from .json_file import JsonDocuments as JsonDocuments
from .sdist import SdistDocuments as SdistDocuments
