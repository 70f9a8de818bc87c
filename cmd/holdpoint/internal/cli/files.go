package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/internal/client"
)

func newFilesCmd(e *Env) *cobra.Command {
	return group("files", "Files that are attached to calls", newFilesUploadCmd(e), newFilesDownloadCmd(e))
}

// fileView is a file as a call has it.
type fileView struct {
	FileID      string `json:"file_id"`
	Filename    string `json:"filename"`
	ContentType string `json:"content_type"`
	Size        int64  `json:"size"`
	SHA256      string `json:"sha256"`
}

// filePairs are lines about what is attached.
func filePairs(files []fileView) []string {
	var pairs []string
	for _, f := range files {
		pairs = append(pairs, "Attached", fmt.Sprintf("%s (%s, %d bytes), id %s, SHA-256 %s", f.Filename, f.ContentType, f.Size, f.FileID, f.SHA256))
	}
	return pairs
}

func newFilesUploadCmd(e *Env) *cobra.Command {
	var agent, contentType, name string
	cmd := &cobra.Command{
		Use: "upload FILE", Short: "Upload a file for an agent, and print its id", Args: usage(cobra.ExactArgs(1)),
		Long: `Upload a file, as an agent (with its key) or as a person who may act as one, and print its id. In the
arguments of a tool it is attached by "attachments": [{"file_id": "…"}]. A file that is attached to nothing
is deleted after a day.`,
		Example: "  holdpoint files upload invoice.pdf --agent billing",
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.upload(cmd, args[0], announcement{Agent: agent, Filename: name, ContentType: contentType})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "the agent, if the token is a person's")
	cmd.Flags().StringVar(&contentType, "type", "", "media type (default by the file's name, else application/octet-stream)")
	cmd.Flags().StringVar(&name, "name", "", "what it is called (default the file's name)")
	return cmd
}

type announcement struct {
	Agent       string `json:"agent,omitempty"`
	Filename    string `json:"filename"`
	ContentType string `json:"content_type"`
	Size        int64  `json:"size"`
	SHA256      string `json:"sha256"`
}

func (e *Env) upload(cmd *cobra.Command, path string, a announcement) error {
	content, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	defer content.Close()
	hash := sha256.New()
	if a.Size, err = io.Copy(hash, content); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	a.SHA256 = hex.EncodeToString(hash.Sum(nil))
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	if a.Filename == "" {
		a.Filename = filepath.Base(path)
	}
	if a.ContentType == "" {
		a.ContentType = mime.TypeByExtension(filepath.Ext(a.Filename))
	}
	if a.ContentType == "" {
		a.ContentType = "application/octet-stream"
	}
	text, err := e.post(cmd.Context(), "files/presign-upload", a)
	if err != nil {
		return err
	}
	to, err := decode[client.Upload](text)
	if err != nil {
		return err
	}
	api, err := e.client()
	if err != nil {
		return err
	}
	receipt, err := api.Put(cmd.Context(), to, io.LimitReader(content, a.Size), a.Size)
	if err != nil {
		return err
	}
	if e.json {
		return e.printJSON(receipt)
	}
	return write(e.Stdout, cell(to.FileID)+"\n")
}

func newFilesDownloadCmd(e *Env) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "download CALL FILE", Short: "Save a file that is attached to a call", Args: usage(cobra.ExactArgs(2)),
		Long: `Save a file that is attached to a call, whoever attached it: to a new file, never over one that is there.
"approvals show" names the files. That a person opened one is recorded.`,
		Example: "  holdpoint files download 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f11 0198c1de-9f6b-7c4e-8f0a-7f3f9f2f6f12 --output invoice.pdf",
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return misuse("--output: name the file to write")
			}
			return e.download(cmd, "calls/"+client.Segment(args[0])+"/files/"+client.Segment(args[1]), output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the file to write")
	return cmd
}

func (e *Env) download(cmd *cobra.Command, from, output string) (err error) {
	api, err := e.client()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("download: %w", err)
	}
	err = errors.Join(api.Stream(cmd.Context(), from, nil, file), file.Close())
	if err != nil {
		return errors.Join(err, os.Remove(output)) // it is not the whole
	}
	return nil
}
